"""What flows between stages: one typed module per artefact, and the file format they share."""
