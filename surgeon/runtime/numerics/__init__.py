"""Comparison of arrays: tolerances, errors, and the effect of rounding on a result.  It does not depend on models."""

__all__ = [
    "allowances",
    "array_comparison",
    "close_results",
    "input_perturbation",
    "magnitude_classes",
    "rounding_perturbation",
    "sensitivity",
    "sensitivity_probe",
    "tensor_error",
    "tensor_judge",
]
