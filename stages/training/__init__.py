"""Training: a small vision-language model from nothing, and adapters of any size from edits."""
