"""Two arrays compared, what each outcome is called, and how large a difference is an error.

It knows arrays and numbers, and no models.
"""

__all__ = [
    "array_comparison",
    "input_perturbation",
    "magnitude_classes",
    "rounding_perturbation",
    "sensitivity",
    "sensitivity_probe",
    "tensor_error",
    "tensor_judge",
]
