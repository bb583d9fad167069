"""What a program is evaluated on: statistics of networks, the bank that keeps them, and the evaluation."""
