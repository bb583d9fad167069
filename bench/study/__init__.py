"""What is asked: the configuration of a study, the plan that it resolves to, and the recipe of its scores."""
