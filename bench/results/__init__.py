"""What the scores of a study say: boards, rankings, pairs, ablations, and comparisons with a baseline."""
