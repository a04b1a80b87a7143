"""All forms by family; a family is exported as one model of many inputs and outputs, so it is small."""

from __future__ import annotations

from functools import cache

from tests.matrix import activations, channel_norms, decoys, linear, norms
from tests.matrix.forms import Form

FILES: dict[str, dict[str, tuple[Form, ...]]] = {
    "activations": {
        "gelus": activations.GELUS,
        "sigmoids": activations.SIGMOIDS,
        "linear_units": activations.LINEAR_UNITS,
        "softmaxes": activations.SOFTMAXES,
    },
    "norms": {
        "layer_norms": norms.LAYER_NORMS,
        "rms_norms": norms.RMS_NORMS,
        "skip_norms": norms.SKIP_NORMS,
    },
    "channel_norms": {
        "group_norms": channel_norms.GROUP_NORMS,
        "instance_norms": channel_norms.INSTANCE_NORMS,
        "l2_norms": channel_norms.L2_NORMS,
    },
    "linear": {
        "batch_norms": linear.BATCH_NORMS,
        "convolutions": linear.CONVOLUTIONS,
        "products": linear.PRODUCTS,
    },
    "decoys": {
        "activation_decoys": decoys.ACTIVATIONS,
        "norm_decoys": decoys.NORMS,
        "statistics": decoys.STATISTICS,
    },
}
"""Families by the file that they are in."""

FAMILIES = {name: forms for families in FILES.values() for name, forms in families.items()}


def file_of(family: str) -> str:
    """The file that a family is in."""
    return next(file for file, families in FILES.items() if family in families)


@cache
def by_name() -> dict[str, Form]:
    """Every form by its name."""
    found = {form.name: form for forms in FAMILIES.values() for form in forms}
    assert len(found) == sum(map(len, FAMILIES.values()))
    return found
