"""The differences between two models: nodes paired, and what changed."""

__all__ = ["diff_models", "model_diff"]
