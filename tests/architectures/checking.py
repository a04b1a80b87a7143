"""An export before and after `surgeon.rewrite`, held against what torch ran."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx

import surgeon
from tests.architectures.cases import Case
from tests.architectures.exporting import Truth, export

MICROSOFT = "com.microsoft"
RULES = ("activations", "norms", "l2_norm", "-residual_sum")
"""The rule groups that the test is about: one node for each norm, where a CPU may be faster with the sum beside it."""

OPERATIONS = {
    ("", "LayerNormalization"): ("layer_norm",),
    (MICROSOFT, "SkipLayerNormalization"): ("layer_norm", "skip_layer_norm"),
    ("", "RMSNormalization"): ("rms_norm",),
    ("", "SimplifiedLayerNormalization"): ("rms_norm",),
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): ("rms_norm", "skip_rms_norm"),
    ("", "GroupNormalization"): ("group_norm",),
    ("", "LpNormalization"): ("l2_norm",),
    (MICROSOFT, "Gelu"): ("gelu",),
    (MICROSOFT, "BiasGelu"): ("gelu",),
    (MICROSOFT, "FastGelu"): ("gelu_tanh",),
    ("", "HardSwish"): ("hardswish",),
    ("", "HardSigmoid"): ("hardsigmoid",),
    ("", "Mish"): ("mish",),
    ("", "BatchNormalization"): ("batch_norm",),
}
"""What one node computes, for ops whose attributes do not change it."""

RESIDUALS = {
    "LayerNormalization": "skip_layer_norm",
    "RMSNormalization": "skip_rms_norm",
    "SimplifiedLayerNormalization": "skip_rms_norm",
}
"""Norms before which a residual is a Sum where a CPU runs it: there that is faster than one node."""

SINCE = {"group_norm": 21}
"""The first opset with an op for an operation that a CPU runs; below, there is nothing to rewrite it to."""


@dataclass(frozen=True)
class Row:
    """One case: what torch ran, what the exporter wrote as one node, and what surgeon made of the rest."""

    case: Case
    source: Path
    output: Path
    truth: Truth
    report: surgeon.Report
    seconds: float

    @cached_property
    def native(self) -> Counter[str]:
        """Operations that are one node in the export."""
        return operations(self.source)

    @cached_property
    def covered(self) -> Counter[str]:
        """Operations that are one node after the rewrite."""
        return operations(self.output)

    @property
    def found(self) -> Counter[str]:
        """Operations that were decomposed and are one node now."""
        return self.covered - self.native

    @property
    def opens(self) -> bool:
        """Whether ONNX Runtime opens what the exporter wrote; if not, its dtypes do not fit together."""
        return self.report.check is None or "does not load the original" not in self.report.check.reason

    @property
    def wanted(self) -> Counter[str]:
        """Operations that must be one node: all that torch ran, but those that have no op at this opset.

        Where the exporter gave a float32 sum to a norm of half precision, the sum is not wanted.
        """
        ran = {name: n for name, n in self.truth.ran.items() if self.case.opset >= SINCE.get(name, 0)}
        return Counter(ran) + (Counter(self.truth.skips) if self.opens else Counter())

    @property
    def missed(self) -> Counter[str]:
        """Operations that ran and are not one node."""
        return self.wanted - self.covered

    @property
    def extra(self) -> Counter[str]:
        """Nodes of operations that never ran; norms may take in more sums than the residual ones."""
        most = Counter(self.truth.ran) + Counter(self.truth.sums)
        return self.covered - most

    @property
    def unproved(self) -> list[str]:
        """Sites without a proof, each with its reason."""
        sites = (*self.report.sites, *self.report.rolled_back)
        return [f"{site.rule} at {site.root}: {site.reason}" for site in sites if site.outcome != "proved"]

    @property
    def model_check(self) -> str:
        """The outcome of the whole model's check, "unchanged" where nothing was rewritten."""
        return self.report.check.outcome.value if self.report.check is not None else "unchanged"

    @property
    def good(self) -> bool:
        """Whether everything that ran is one node, nothing else is, and all of it is proved."""
        whole = self.model_check == "proved" or not self.opens or not self.report.sites
        return whole and not (self.missed or self.extra or self.unproved)


def check(case: Case, output: Path) -> Row:
    """Export a case, rewrite it with every activation and norm, and check sites and whole model."""
    source, truth = export(case)
    started = time.perf_counter()
    _, report = surgeon.rewrite(source, RULES, output=output, check="both", keep_going=True)
    return Row(case, source, output, truth, report, time.perf_counter() - started)


def operations(path: Path) -> Counter[str]:
    """Operations that are one node, over all scopes of a model."""
    model = onnx.load(path, load_external_data=False)
    nodes = list(_nodes([*model.graph.node, *(node for function in model.functions for node in function.node)]))
    sums = {node.output[0] for node in nodes if node.op_type == "Sum"}
    skips = (RESIDUALS[node.op_type] for node in nodes if node.op_type in RESIDUALS and node.input[0] in sums)
    return Counter(name for node in nodes for name in operation(node)) + Counter(skips)


def operation(node: onnx.NodeProto) -> tuple[str, ...]:
    """What one node computes, by the names of the truth; none for ops that are no activation and no norm."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    known = OPERATIONS.get((domain, node.op_type))
    if known is not None:
        return known
    attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    if (domain, node.op_type) == ("", "Gelu"):
        return ("gelu_tanh",) if attributes.get("approximate") == b"tanh" else ("gelu",)
    if (domain, node.op_type) in ((MICROSOFT, "QuickGelu"), ("", "Swish")):
        alpha = attributes.get("alpha", 1.702 if domain else 1.0)
        return {1.0: ("silu",), 1.702: ("quick_gelu",)}.get(round(alpha, 6), ())
    if (domain, node.op_type) == (MICROSOFT, "GroupNorm"):
        return ("group_norm", "silu") if attributes.get("activation") else ("group_norm",)
    return ()


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of their bodies."""
    for node in nodes:
        yield node
        for item in node.attribute:
            for body in (item.g, *item.graphs):
                yield from _nodes(body.node)
