"""A search as people ask for it: configuration, splits, runs, programs that were found, and reports on them."""
