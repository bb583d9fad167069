"""What users read: the leaderboard page, tables, figures, what a check found, and the mirror of a run in W&B."""
