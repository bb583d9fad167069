"""What computes scores and keeps them: jobs, workers, and the store of rows."""
