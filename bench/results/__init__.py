"""What the scores of studies say: boards, panels, rankings, pairs, ablations, and the regression check."""
