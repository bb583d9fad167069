"""What people look at: the leaderboard page, tables, figures, JUnit files, and mirrors of a run."""
