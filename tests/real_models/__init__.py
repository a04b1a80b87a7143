"""Models that others made, and what rewriting them costs: `python -m tests.real_models`."""
