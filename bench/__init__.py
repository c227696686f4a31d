"""What the work costs, measured: each figure against a baseline of the same run.

`make bench` writes `docs/speed.json` and the table of `docs/speed.md`. Seconds depend on the
machine and on who else uses it; ratios within one run hardly do. Nothing here is a test: a figure
that misses its bound is written down as missed.
"""
