"""Pure numbers: estimates, intervals and agreement, for any list of scores."""
