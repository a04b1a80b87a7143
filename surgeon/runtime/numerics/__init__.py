"""Comparison of two arrays: tolerances, errors, and how far rounding may carry a result.

It knows arrays and numbers, and no models.
"""

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
