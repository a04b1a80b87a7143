"""Every GELU that torch ran is found in what its exporters wrote, and nothing else changes.

The cases are in `tests.exports`; `--whole` runs all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime
import pytest

import surgeon
from tests import exports, make_shipped_model

DECOMPOSED = {"Erf", "Tanh", "Sigmoid", "Pow", "Div", "Mul", "Add", "Constant"}
"""Ops that a decomposed GELU is made of; a rewrite may take away no other."""
FUSED = {"exact": "Gelu", "tanh": "FastGelu", "quick": "QuickGelu"}


@dataclass(frozen=True)
class Rewritten:
    """One export before and after `surgeon.rewrite(..., ["gelu"])`, both as files."""

    source: Path
    output: Path
    truth: exports.Truth
    opset: int
    report: surgeon.Report

    @property
    def before(self) -> Counter[tuple[str, str]]:
        return histogram(self.source)

    @property
    def after(self) -> Counter[tuple[str, str]]:
        return histogram(self.output)


def histogram(path: Path) -> Counter[tuple[str, str]]:
    """How often each (domain, op) stands in the main graph; no export of this set has another scope."""
    return Counter((node.domain, node.op_type) for node in onnx.load(path).graph.node)


def runs(path: Path) -> bool:
    """Whether ONNX Runtime opens the model as the exporter wrote it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return False
    return True


@pytest.fixture(scope="module")
def rewritten(
    real_export: tuple[exports.Case, Path, exports.Truth], tmp_path_factory: pytest.TempPathFactory
) -> Rewritten:
    case, source, truth = real_export
    output = tmp_path_factory.mktemp("rewritten") / source.name
    _, report = surgeon.rewrite(source, "gelu", check="both", output=output)
    return Rewritten(source, output, truth, case.opset, report)


def test_sites_are_the_gelus_that_ran(rewritten: Rewritten) -> None:
    """As many sites per kind as torch ran, less those that the exporter wrote as one node itself."""
    report = rewritten.report
    rules = Counter(site.rule for site in report.sites)
    assert {kind: rules[rule] for kind, rule in exports.RULES.items()} == rewritten.truth.sites(rewritten.opset)
    assert report.count("gelu") == len(report.sites) == rules.total()


def test_each_gelu_is_one_node_and_no_part_remains(rewritten: Rewritten) -> None:
    """The output holds every GELU as one op, the exporter's own as it was, and no erf, tanh or sigmoid."""
    sites, native = rewritten.truth.sites(rewritten.opset), rewritten.truth.native(rewritten.opset)
    after = rewritten.after
    assert {kind: after["com.microsoft", op] for kind, op in FUSED.items()} == sites
    assert after["", "Gelu"] == rewritten.before["", "Gelu"] == sum(native.values())
    assert after["", "Erf"] == after["", "Tanh"] == after["", "Sigmoid"] == 0


def test_nothing_else_is_added_or_removed(rewritten: Rewritten) -> None:
    """Only nodes of a decomposed GELU go, only fused ones come, and each site takes at least three nodes away."""
    gone, come = rewritten.before - rewritten.after, rewritten.after - rewritten.before
    assert {op for _, op in gone} <= DECOMPOSED
    assert set(come) <= {("com.microsoft", op) for op in FUSED.values()}
    assert gone.total() >= 3 * come.total()


def test_every_site_is_proved_on_its_own(rewritten: Rewritten) -> None:
    """Also in models that ONNX Runtime does not open as a whole, each by an oracle that owes nothing to the rule."""
    sites = rewritten.report.sites
    assert [site.proof.outcome.value for site in sites if site.proof] == ["proved"] * len(sites)
    assert all(proof.independent for proof in rewritten.report.proofs)


def test_the_model_check_proves_it(rewritten: Rewritten) -> None:
    """The check says proved wherever ONNX Runtime opens the original, and unproved, never proved, where it does not."""
    expected = "proved" if runs(rewritten.source) else "unproved"
    assert rewritten.report.outcome == (expected if rewritten.report.sites else "unchanged")


def test_a_second_rewrite_changes_nothing(rewritten: Rewritten, tmp_path: Path) -> None:
    """Rewriting the output again finds no site and writes the same bytes."""
    again = tmp_path / "again.onnx"
    _, report = surgeon.rewrite(rewritten.output, "gelu", check="none", output=again)
    assert not report.sites
    assert again.read_bytes() == rewritten.output.read_bytes()


def test_inputs_and_outputs_are_kept(rewritten: Rewritten) -> None:
    """Names, types, shapes and order of the model's inputs and outputs stay, and the checker accepts the output."""
    before, after = onnx.load(rewritten.source), onnx.load(rewritten.output)
    assert list(after.graph.input) == list(before.graph.input)
    assert list(after.graph.output) == list(before.graph.output)
    if runs(rewritten.source):
        onnx.checker.check_model(after)


def test_the_sample_covers_every_architecture_exporter_opset_and_dtype() -> None:
    """What runs by default leaves out no value of any of the four."""
    sample, every = exports.sample(), exports.cases()
    for part in ("arch", "exporter", "opset", "dtype"):
        assert {getattr(case, part) for case in sample} == {getattr(case, part) for case in every}
    assert {(case.exporter, case.dtype) for case in sample} == {(case.exporter, case.dtype) for case in every}


def test_shipped_model_holds_the_gelus_that_torch_ran(tmp_path: Path) -> None:
    """The export that ships is rewritten at as many sites as torch ran GELUs, and the check proves it."""
    _, report = surgeon.rewrite(make_shipped_model.PATH, "gelu", output=tmp_path / "out.onnx")
    assert [site.rule for site in report.sites] == ["gelu"] * make_shipped_model.count_gelus()
    assert report.outcome == "proved"


def test_shipped_model_is_small_and_keeps_the_exporter_s_metadata() -> None:
    """Below 600 kB, batch and sequence dynamic, stack traces without folders of another machine."""
    path = make_shipped_model.PATH
    model = onnx.load(path)
    assert path.stat().st_size < 600_000
    assert [d.dim_param for d in model.graph.input[0].type.tensor_type.shape.dim] == ["batch", "sequence"]
    traces = [entry.value for node in model.graph.node for entry in node.metadata_props if "stack_trace" in entry.key]
    assert traces
    assert not [trace for trace in traces if 'File "/' in trace]
