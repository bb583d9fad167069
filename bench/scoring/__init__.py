"""Scoring: the jobs of a study, the workers that run them, and the store of scores."""
