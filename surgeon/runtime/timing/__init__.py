"""Latency of models, measured in paired loads."""

__all__ = [
    "bench",
    "bench_inputs",
    "bench_tasks",
    "idle_share",
    "latency",
    "load_batches",
    "loaded_graphs",
    "samples",
]
