"""EDCT-Bench as an artefact: a finished run as parquet files, and what adapters find in it."""
