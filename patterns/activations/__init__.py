"""GELU and other activation functions."""
