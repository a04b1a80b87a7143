"""What stands between a model and the target that is to run it, and what helps."""
