"""From the records of a study to its findings: what is joined, grouped and compared with what.

The numbers themselves are made in `stages.stats`; here is which rows go into them. Nothing is
drawn, printed or asked.
"""
