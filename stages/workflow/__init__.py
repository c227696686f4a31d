"""How a stage runs in a DVC workspace: its parameters, cells, errors and progress."""
