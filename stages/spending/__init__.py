"""What a study will cost, and what it has cost: commands that call no model."""
