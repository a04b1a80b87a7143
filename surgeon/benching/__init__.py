"""Latency of models held against each other: paired runs, interleaved in one process."""
