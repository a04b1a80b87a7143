"""The differences between two models: paired nodes, and their changes."""

__all__ = ["diff_models", "model_diff"]
