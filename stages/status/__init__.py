"""Where a study stands: what is done, what is missing, what failed and why, what is left to pay."""
