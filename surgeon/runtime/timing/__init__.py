"""Latency of models, measured in paired loads."""

__all__ = ["bench", "latency", "samples"]
