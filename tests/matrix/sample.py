"""The sample that runs by default: every form in two columns, and each other exporter, opset and dtype in a family."""

from __future__ import annotations

from tests.matrix.cases import Column, columns
from tests.matrix.modules import FAMILIES

WHOLE = ("ts13-fp16", "dynamo18-fp32")
"""Columns in which every family stands: each exporter, in the forms that have the most nodes."""

SINGLE = {
    "ts11-fp32": "gelus",
    "ts12-fp32": "linear_units",
    "ts14-fp32": "layer_norms",
    "ts15-fp16": "gelus",
    "ts16-fp16": "rms_norms",
    "ts17-fp32": "group_norms",
    "ts18-fp32": "layer_norms",
    "ts19-fp32": "skip_norms",
    "ts20-fp16": "gelus",
    "dynamo19-fp16": "rms_norms",
    "dynamo20-fp32": "softmaxes",
    "dynamo21-fp32": "group_norms",
    "dynamo22-fp16": "linear_units",
    "dynamo23-fp16": "instance_norms",
}
"""Columns in which one family stands."""


def chosen() -> list[tuple[str, Column]]:
    """Families and the columns they stand in, in order."""
    by_name = {column.name: column for column in columns()}
    whole = [(family, by_name[name]) for name in WHOLE for family in FAMILIES]
    return whole + [(family, by_name[name]) for name, family in SINGLE.items()]


def every() -> list[tuple[str, Column]]:
    """All families in all columns."""
    return [(family, column) for column in columns() for family in FAMILIES]
