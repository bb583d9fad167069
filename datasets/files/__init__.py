"""Data files: the registry of what there is, checks, downloads, archives, and readers that run nothing from a file."""
