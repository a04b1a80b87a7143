"""Merges two models into one, and splits one into several."""

__all__ = ["merge", "split"]
