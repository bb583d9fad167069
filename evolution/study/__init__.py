"""Whole searches: configuration and its resolution, runs, program files, and reports."""
