"""What is asked: the configuration of a study, and the plan that it resolves to."""
