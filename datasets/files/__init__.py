"""Data files: the registry of what there is, downloads, archives, and readers that execute nothing."""
