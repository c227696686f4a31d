"""Runs that travel: a finished study as an EDCT-Bench artefact, and back (docs/edct_bench.md)."""
