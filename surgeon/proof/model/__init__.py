"""Comparison of whole models, and the tensor at which they first differ."""

__all__ = [
    "bisect",
    "comparison_tally",
    "decoding_check",
    "distinguishing_inputs",
    "exposed_outputs",
    "final_check",
    "half_precision",
    "hidden_rows",
    "inner_tensors",
    "load_check",
    "model_check",
    "model_cost",
    "model_region",
    "original_runs",
    "trial",
    "trial_generator",
]
