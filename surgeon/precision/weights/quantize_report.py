"""The report of a quantisation of weights: the error of each weight and layer, and the losses of the whole model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from surgeon.pipeline.reports.report import UNCHANGED, Report
from surgeon.precision.convert_report import ConvertReport
from surgeon.precision.weights.weight_rounding import BlockRounding
from surgeon.result_base import JsonRecord


@dataclass(frozen=True, slots=True)
class QuantizedLayer(JsonRecord):
    """A node that reads a rounded weight."""

    JSON = "node op weight rows columns error output_error"

    node: str
    """Its name; without one, the name of its first output."""
    op: str
    """Its operator before."""
    weight: str
    """Name of the weight before."""
    rows: int
    """Rows of the weight: the outputs of a product, or the entries of a table."""
    columns: int
    """Columns of the weight, which are divided into blocks."""
    error: float | None
    """Norm of the weight's error, relative to the norm of the weight; None if it was not rounded."""
    output_error: float | None = None
    """The same of the node's output in the quantised model, on the first inputs; None if it did not run."""


@dataclass(slots=True)
class QuantizeReport(ConvertReport):
    """The result of a quantisation of weights.  Its fields are the keys of the report, so they are many.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.convert("notebooks/models/tiny_distilbert.onnx", "int8", output="int8.onnx")
        >>> report.outcome, len(report.layers), report.error < 0.02
        ('proved', 22, True)
    """

    JSON = ConvertReport.JSON.replace("followers casts", "block symmetric accuracy_level").replace(
        "hidden max_error stretches", "max_error=limit kernel_error divergence same_best layers"
    )

    block: int = 0
    """Number of elements of a weight with one scale."""
    symmetric: bool = True
    """Whether the zero point is fixed."""
    accuracy_level: int = 0
    """The attribute of the products: 0, or 4 if kernels may round activations too."""
    limit: float | None = None
    """Limit of `error`; None if none was given."""
    layers: Sequence[QuantizedLayer] = ()
    """The nodes that read rounded weights."""
    kernel_error: float | None = None
    """Largest error of an output against the original with the rounded weights as floats; None if nothing ran."""
    kernel_limit: float = 0.0
    """Limit of `kernel_error`."""
    divergence: float | None = None
    """Mean Kullback-Leibler divergence of the scores of all tokens or classes; None for a model without scores."""
    best: list[int] = field(default_factory=lambda: [0, 0])
    """Rows of scores with the same largest score, and all rows."""

    @classmethod
    def of(cls, to: str, rounding: BlockRounding, limit: float | None, steps: list[Report]) -> Self:
        """A report for a way of rounding."""
        made = cls("", "", ("float", to), max_error=limit or 0.0, limit=limit, steps=steps)
        made.block, made.symmetric = rounding.block, rounding.symmetric
        made.accuracy_level = rounding.accuracy_level
        return made

    @property
    def same_best(self) -> float | None:
        """The fraction of rows of scores whose largest score has the same index; None without scores."""
        return self.best[0] / self.best[1] if self.best[1] else None

    @property
    def changed(self) -> bool:
        """Whether any node reads a rounded weight."""
        return bool(self.converted)

    @property
    def own_outcome(self) -> str:
        """proved, failed, unproved, unchecked, or unchanged if no weight is rounded.

        Proved means that the result computes what the rounded weights give, and that `error` is within the limit, if
        there is one.
        """
        if not self.changed:
            return UNCHANGED
        if not self.checked:
            return "unchecked"
        if self.error is None or self.kernel_error is None:
            return "unproved"
        is_within = self.limit is None or self.error <= self.limit
        return "proved" if is_within and self.kernel_error <= self.kernel_limit else "failed"

    def __repr__(self) -> str:
        moved = "" if self.error is None else f", outputs change by {self.error:.2g}"
        return (
            f"<QuantizeReport {self.change[0]} to {self.change[1]}: {self.converted} nodes, {len(self.kept)} kept"
            f"{moved}; {self.outcome}>"
        )
