"""People's judgements: forms out to annotators, and their answers back.

`draw` chooses the edits, `material` gathers what an annotator may see of them, `form` and
`label_studio` write it; `replies` reads what comes back and `intake` turns it into annotations.
Nothing that is handed out names a model, a verdict or a sample.
"""
