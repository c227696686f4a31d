"""Adapters of one kind, a file per provider: segmenters."""
