"""Latency of models, measured in interleaved rounds."""

__all__ = ["bench", "latency"]
