"""Data of programs: statistics of networks, the bank that stores them, and the evaluation of programs on them."""
