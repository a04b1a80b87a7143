"""The sample that runs by default: every third form in one column, over both exporters, all opsets and both dtypes."""

from __future__ import annotations

from dataclasses import dataclass

from tests.matrix.cases import Column, Export, columns, family
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


@dataclass(frozen=True)
class Part:
    """Some forms of a family in a column: from the form at `start` on, one of `step`."""

    family: str
    column: Column
    start: int = 0
    step: int = 1

    @property
    def name(self) -> str:
        """For instance `gelus-dynamo18-fp16`."""
        return f"{self.family}-{self.column.name}"

    def exports(self) -> tuple[Export, ...]:
        """What became of these forms, which are exported together."""
        return family(self.family, self.column, self.start, self.step)


def chosen() -> list[Part]:
    """Families and the columns they stand in, in order; the columns of a family take its forms in turn."""
    by_name = {column.name: column for column in columns()}
    return [
        Part(name, by_name[column], start, 3 * len(names))
        for name, names in CHOSEN.items()
        for start, column in enumerate(names)
    ]


def every() -> list[Part]:
    """All families in all columns."""
    return [Part(name, column) for column in columns() for name in FAMILIES]
