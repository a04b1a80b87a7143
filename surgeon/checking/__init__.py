"""What stands between a model and the target that is to run it, and which rules help: `surgeon.check`."""
