"""Rules, and what they do to a model."""
