"""The command line: one file for each command, which declares its own arguments."""
