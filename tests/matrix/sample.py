"""The sample that runs by default: every form in one column of each exporter, over all opsets and both dtypes."""

from __future__ import annotations

from tests.matrix.cases import Column, columns
from tests.matrix.modules import FAMILIES

CHOSEN = {
    "gelus": ("ts11-fp32", "dynamo18-fp16"),
    "sigmoids": ("ts13-fp16", "dynamo22-fp16"),
    "linear_units": ("ts12-fp32", "dynamo18-fp32"),
    "softmaxes": ("ts17-fp16", "dynamo20-fp32"),
    "layer_norms": ("ts14-fp32", "dynamo18-fp32"),
    "rms_norms": ("ts16-fp16", "dynamo19-fp16"),
    "skip_norms": ("ts19-fp32", "dynamo18-fp32"),
    "group_norms": ("ts17-fp32", "dynamo21-fp32"),
    "instance_norms": ("ts13-fp32", "dynamo23-fp16"),
    "l2_norms": ("ts15-fp16", "dynamo18-fp16"),
    "batch_norms": ("ts20-fp16", "dynamo18-fp32"),
    "convolutions": ("ts13-fp16", "dynamo23-fp32"),
    "products": ("ts18-fp32", "dynamo20-fp16"),
    "activation_decoys": ("ts13-fp32", "dynamo22-fp32"),
    "norm_decoys": ("ts13-fp16", "dynamo20-fp32"),
    "statistics": ("ts12-fp16", "dynamo18-fp32"),
}
"""Columns by family: where its forms have many nodes, and each opset for a family to which it makes a difference."""


def chosen() -> list[tuple[str, Column]]:
    """Families and the columns they stand in, in order."""
    by_name = {column.name: column for column in columns()}
    return [(family, by_name[name]) for family, names in CHOSEN.items() for name in names]


def every() -> list[tuple[str, Column]]:
    """All families in all columns."""
    return [(family, column) for column in columns() for family in FAMILIES]
