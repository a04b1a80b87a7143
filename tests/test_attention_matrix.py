"""Every attention and rotary embedding that torch ran is one op in our output, proved, and the whole models are equal.

The cases are in `tests.attention`, with the sample of them that runs by default.  `python -m tests.attention --table`
measures all of them, the peers beside us.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import surgeon
from surgeon.pipeline.upgrading.upgrade import upgrade
from tests import sampling
from tests.attention import cases, comparing, inputs, peers, table
from tests.attention.apart import apart, close
from tests.attention.cases import Case, Variant
from tests.attention.exporting import Export, export
from tests.attention.inputs import Input
from tests.attention.measure import OPSET, OURS, RULES, STANDARD_OURS, Cell, found, measure
from tests.versions import version_of

SAMPLE = cases.sample()
CHOSEN = sampling.chosen(cases.sample, cases.table)
STANDARD = sampling.chosen(lambda: [case for case in SAMPLE if case.name in cases.STANDARD_SAMPLE], cases.table)


@dataclass(frozen=True)
class Rewritten:
    """One export, what the matrix says of it, and our output."""

    row: table.Row
    output: Path


def params(chosen: Sequence[Case], missed: tuple[str, ...]) -> list[Any]:
    """The cases by name; one of which the table says that it is missed may fail."""
    may_fail = pytest.mark.xfail(reason="TABLE.md lists it as not full")
    return [
        pytest.param(case, id=case.name, marks=[may_fail] if case.name.startswith(missed) else []) for case in chosen
    ]


@pytest.fixture(scope="module", params=params(CHOSEN, cases.MISSED))
def rewritten(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    """One export, rewritten, and compared on all sets of inputs."""
    if request.param.name in cases.NOT_LOADED and version_of("onnxruntime") < (1, 31):
        pytest.skip("ONNX Runtime before 1.31 does not load the export")
    made, folder = export(request.param), tmp_path_factory.mktemp("attention")
    assert made.path is not None, made.fault
    cell = measure(made, OURS, comparing.answers(made), folder)
    return Rewritten(table.Row(made, {OURS: cell}), folder / "ort.onnx")


@pytest.fixture
def row(rewritten: Rewritten) -> table.Row:
    """What the matrix says of an export."""
    return rewritten.row


def test_every_call_is_one_op_and_proved_and_the_whole_model_equal(row: table.Row) -> None:
    """As many ops as calls, each site proved; equal for other lengths, batches and paddings, and step by step."""
    assert row.fault == ""
    assert row.cells[OURS].compared > 0


def test_the_export_itself_runs_on_all_inputs(row: table.Row) -> None:
    """Nothing is excused by an original that does not run."""
    assert row.cells[OURS].state == "ok"
    assert row.cells[OURS].refused == ()


@pytest.mark.parametrize("case", params(STANDARD, cases.STANDARD_MISSED))
def test_standard_ops_take_every_call_too(case: Case, tmp_path: Path) -> None:
    """Raised to opset 23, with standard ops alone: as many as calls, each site proved, the whole model equal."""
    made = export(case)
    row = table.Row(made, {STANDARD_OURS: measure(made, STANDARD_OURS, comparing.answers(made), tmp_path)})
    assert row.fault == ""
    assert row.cells[STANDARD_OURS].compared > 0
    used = {(node.domain, node.op_type) for node in onnx.load(tmp_path / "onnx.onnx").graph.node}
    assert not [op for domain, op in used if domain]


@pytest.mark.parametrize("target", ["onnx", "decomposed"])
@pytest.mark.parametrize("case", [case for case in SAMPLE if case.name in cases.TAKEN_BACK], ids=lambda case: case.name)
def test_what_was_written_for_the_runtime_is_taken_back(case: Case, target: str, tmp_path: Path) -> None:
    """Its ops become standard ones, or primitives: each site proved, and the whole model equal."""
    made, raised, source, output = export(case), *(tmp_path / name for name in ("raised.onnx", "ort.onnx", "back.onnx"))
    assert made.path is not None
    upgrade(made.path, OPSET, raised, check="none")
    surgeon.rewrite(raised, RULES, output=source, check="none")
    written, _ = found(onnx.load(source).graph.node)
    _, report = surgeon.rewrite(source, "attentions", target=target, output=output, check="sites")
    assert report.outcome == "proved"
    kinds, ops = found(onnx.load(output).graph.node)
    assert kinds == (written if target == "onnx" else {})
    assert not [op for op in ops if op.startswith("ms.")]
    assert not list(comparing.differences(comparing.answers(made), output, case.dtype))


def test_a_second_rewrite_changes_nothing(rewritten: Rewritten, tmp_path: Path) -> None:
    """Rewriting the output again finds no site and writes the same bytes."""
    again = tmp_path / "again.onnx"
    _, report = surgeon.rewrite(rewritten.output, RULES, output=again, check="none")
    assert not report.sites
    assert again.read_bytes() == rewritten.output.read_bytes()


def test_the_sample_holds_every_exporter_opset_dtype_and_kind_of_sizes() -> None:
    """What runs by default leaves out no value of these, no attention, and neither a past nor its absence."""
    for part in ("exporter", "opset", "dtype", "dynamic"):
        assert {getattr(case, part) for case in SAMPLE} == {getattr(case, part) for case in cases.every()}
    for part in ("attention", "past"):
        assert {getattr(case.variant, part) for case in SAMPLE} == {getattr(one, part) for one in cases.variants()}


def test_the_table_holds_every_variant_in_every_column_and_every_mode() -> None:
    """The design leaves out no variant, and each column meets each dtype and kind of sizes."""
    chosen = cases.table()
    assert {(case.variant, case.exporter, case.opset) for case in chosen} == {
        (case.variant, case.exporter, case.opset) for case in cases.every()
    }
    met = {(case.exporter, case.opset, case.dtype, case.dynamic) for case in chosen}
    assert met == {(case.exporter, case.opset, case.dtype, case.dynamic) for case in cases.every()}


def test_truth_counts_calls_of_every_kind_once() -> None:
    """torch's own function, a module that says what it is, torch's layer; what is inside of one is a part of it."""
    import torch
    from torch import nn

    from tests.attention import ground_truth, modules

    for name in ("multihead", "sdpa", "scale_by_div", "three_axes"):
        module, (one,) = modules.FORMS[name]()
        assert ground_truth.count(module.eval(), (torch.randn(2, 5, one.shape[-1]),)) == {"attention": 1}, name
    module, (one,) = modules.FORMS["rope_half"]()
    assert ground_truth.count(module, (torch.randn(2, 5, one.shape[-1]),)) == {"attention": 1, "rotary": 2}
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert ground_truth.count(nn.Softmax(-1), (torch.ones(2, 2),)) == {}


@pytest.mark.parametrize(
    ("variant", "ran"),
    [
        (Variant("t5", "eager", False), {"attention": 6}),
        (Variant("t5", "eager", True), {"attention": 4}),
        (Variant("llama", "sdpa", True), {"attention": 2, "grouped": 2, "rotary": 4}),
        (Variant("phi3", "eager", False), {"attention": 2, "grouped": 2, "rotary": 4}),
        (Variant("query_axis", "own", False), {}),
    ],
    ids=lambda value: value.name if isinstance(value, Variant) else "",
)
def test_truth_of_models_is_what_their_layers_say(variant: Variant, ran: dict[str, int]) -> None:
    """Two layers on each side, one attention a layer and one more where a decoder looks at an encoder."""
    from tests.attention import torch_export

    assert torch_export.count(variant) == ran


def test_padding_is_where_it_is_said_to_be() -> None:
    """Each row has one word less than the row before, on the side that is asked for; none loses all of them."""
    mask = {"mask": Input("mask", ("batch", "sequence"))}
    sizes = {"batch": 3, "sequence": 4}
    left = inputs.arrays(mask, "fp32", sizes, "left")["mask"]
    assert left.tolist() == [[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert inputs.arrays(mask, "fp32", sizes, "right")["mask"].tolist() == left[:, ::-1].tolist()
    assert inputs.arrays(mask, "fp32", {"batch": 3, "sequence": 1}, "left")["mask"].all()


def test_inputs_are_compared_for_several_lengths_batches_and_paddings() -> None:
    """Batches of one and three, three lengths and more, both sides; the sizes of the export where all are fixed."""
    known = {**inputs.text(words="ids", mask="mask"), "past": Input("real", ("batch", 2, "past", 4))}
    free = list(comparing.feeds(known, "fp16", dynamic=True))
    shapes = {fed["words"].shape for _, fed in free}
    assert {batch for batch, _ in shapes} == {1, 3}
    assert len({length for _, length in shapes}) >= 3
    assert {reported.rpartition("padded ")[2] for reported, _ in free if "padded" in reported} == {"left", "right"}
    assert {fed["words"].shape for _, fed in comparing.feeds(known, "fp16", dynamic=False)} == {(2, 7)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x, ""),
        (lambda x: x + np.float32(1e-7), ""),
        (lambda x: x * np.float32(1.01), "y is off by 0.01 of 1"),
        (lambda x: np.where(x > 0, np.nan, x).astype(np.float32), "y is not finite where it was"),
        (lambda x: x[:1], "y is float32 of (1,), not float32 of (2,)"),
        (lambda x: x.astype(np.float64), "y is float64 of (2,), not float32 of (2,)"),
    ],
)
def test_other_numbers_are_reported(change: Callable[[np.ndarray], np.ndarray], message: str) -> None:
    """Rounding is no difference; an error, a NaN, another shape and another dtype are."""
    one = np.array([1, -1], np.float32)
    assert comparing.differs({"y": one}, {"y": change(one)}, "fp32").startswith(message)
    assert bool(message) == bool(comparing.differs({"y": one}, {"y": change(one)}, "fp32"))


def adder(path: Path, offset: float, keeps: bool = True) -> Path:
    """A model with a past: the mean of past and words, which become the next past, plus a number if there is a past."""
    nodes = [
        helper.make_node("Cast", ["words"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["real", "two"], ["wide"]),
        helper.make_node("Concat", ["past", "wide"], ["present"], axis=1),
        helper.make_node("Add", ["wide", "offset"], ["y"]),
    ]
    if not keeps:
        nodes[-1] = helper.make_node("CumSum", ["wide", "one"], ["y"])
    real, whole = TensorProto.FLOAT, TensorProto.INT64
    graph = helper.make_graph(
        nodes,
        "steps",
        [
            helper.make_tensor_value_info("words", whole, ["batch", "sequence"]),
            helper.make_tensor_value_info("past", real, ["batch", "past", 1]),
        ],
        [
            helper.make_tensor_value_info("y", real, ["batch", "sequence", 1]),
            helper.make_tensor_value_info("present", real, ["batch", "total", 1]),
        ],
        [
            helper.make_tensor("two", whole, [1], [2]),
            helper.make_tensor("one", whole, [], [1]),
            helper.make_tensor("offset", real, [], [offset]),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def stepping(path: Path) -> Export:
    """An export with a past, of this file."""
    known = {"words": Input("ids", ("batch", "sequence")), "past": Input("real", ("batch", "past", 1))}
    case = Case(Variant("llama", "sdpa", True), "ts", 17, "fp32", True)
    return Export(case, path, {}, known, {"past": "present"}, "")


def test_decoding_by_steps_is_compared_with_decoding_at_once(tmp_path: Path) -> None:
    """A model without memory decodes alike; one that sums up what it is given at once does not, and is told."""
    good, bad = adder(tmp_path / "good.onnx", 1.0), adder(tmp_path / "bad.onnx", 1.0, keeps=False)
    assert list(comparing.stepwise(comparing.Model(good), stepping(good))) == []
    reported = list(comparing.stepwise(comparing.Model(bad), stepping(bad)))
    assert len(reported) == 2
    assert "y is off" in reported[0]


def test_a_model_with_other_numbers_or_none_is_broken(tmp_path: Path) -> None:
    """The comparison finds another offset on all inputs, and a file that does not open."""
    good, bad = adder(tmp_path / "good.onnx", 1.0), adder(tmp_path / "bad.onnx", 2.0)
    truth = comparing.answers(stepping(good))
    assert isinstance(truth, comparing.Truth)
    assert list(comparing.differences(truth, good, "fp32")) == []
    assert len(list(comparing.differences(truth, bad, "fp32"))) == len(truth.answers)
    (tmp_path / "none.onnx").write_bytes(b"no model")
    assert next(comparing.differences(truth, tmp_path / "none.onnx", "fp32")).startswith("does not open")


def test_ops_are_counted_by_kind() -> None:
    """Ops of both domains, rotary embeddings inside of an attention, and nothing else."""
    nodes = [
        helper.make_node("Attention", ["q", "k", "v"], ["a"]),
        helper.make_node("GroupQueryAttention", ["q", "k", "v"], ["b"], domain="com.microsoft", do_rotary=1),
        helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["c"], domain="com.microsoft"),
        helper.make_node("RotaryEmbedding", ["q", "c", "s"], ["d"]),
        helper.make_node("Softmax", ["q"], ["e"]),
        helper.make_node("MultiHeadAttention", ["q"], ["f"], domain="somewhere.else"),
    ]
    kinds, ops = found(nodes)
    assert kinds == {"attention": 3, "rotary": 3}
    assert ops["ms.GroupQueryAttention"] == 1


def cell(done: int, state: str = "ok", **more: object) -> Cell:
    """A cell with so many attentions."""
    return Cell({"attention": done}, {}, {}, state, **more)


def made(model: str, truth: dict[str, int]) -> Export:
    """An export that is never read."""
    return Export(Case(Variant(model, "own", False), "ts", 17, "fp32", True), Path("x.onnx"), truth, {}, {}, "")


@pytest.mark.parametrize(
    ("ours", "fault"),
    [
        (cell(1), ""),
        (cell(0, misses=("attention at n: why",)), "0 of 1 attention: attention at n: why"),
        (cell(1, "extra"), "extra"),
        (cell(0, "broken", wrong=("batch 1: y differs",)), "broken: batch 1: y differs"),
        (cell(1, sites=1, misses=("it is not proved",)), "1 of 1 sites not proved: it is not proved"),
    ],
)
def test_a_fault_is_a_call_missed_or_not_proved_or_a_model_broken(ours: Cell, fault: str) -> None:
    """What counts as full."""
    assert table.Row(made("sdpa", {"attention": 1}), {OURS: ours}).fault == fault


def test_a_fault_of_the_standard_target_is_reported_as_such() -> None:
    """Each of our columns has a list of its own of what is not full."""
    cells = {OURS: cell(1), STANDARD_OURS: cell(0, misses=("not raised to opset 23: why",))}
    row = table.Row(made("sdpa", {"attention": 1}), cells)
    assert row.fault == "surgeon, target onnx: 0 of 1 attention: not raised to opset 23: why"
    text = list(table.lines([row], "Title"))
    assert "| | surgeon | surgeon, target onnx | proved | ops | proved, target onnx |" in text
    assert text[text.index("## Not full: 0") + 2 :][:1] == [""]
    assert text[text.index("## Not full, target onnx: 1") + 2].startswith("- 0 of 1 attention: not raised to opset n")


def test_the_table_adds_up() -> None:
    """Sites over rows, broken models, decoys, and the exports without a file, each in its place."""
    tools = (OURS, "ORT Python")
    rows = [
        table.Row(made("sdpa", {"attention": 1}), {OURS: cell(1, sites=1, proved=1), "ORT Python": cell(0, "broken")}),
        table.Row(made("sdpa", {"attention": 1}), {OURS: cell(0), "ORT Python": cell(1)}),
        table.Row(made("query_axis", {}), {OURS: cell(0), "ORT Python": cell(0, "extra")}),
    ]
    silent = Export(made("einsum", {}).case, None, {"attention": 1}, {}, {}, "RuntimeError: no")
    text = list(table.lines([*rows, table.Row(silent)], "Title"))
    assert "| sdpa | 1/2 | 1/2, 1 broken | 1/1 |  |" in text
    assert "| query_axis | 1/1 | 0/1, 1 extra |" in text
    assert "- RuntimeError: no (einsum-ts17-fp32)" in text
    assert any(line.startswith("- 0 of 1 attention: no reason given") for line in text)
    assert tools[1] in peers.PEERS


@pytest.mark.parametrize("peer", sampling.chosen(lambda: [*peers.PEERS][:1], lambda: [*peers.PEERS]))
def test_peers_run(peer: str, tmp_path: Path) -> None:
    """Each peer writes a model that answers as the export does."""
    one = export(Case(Variant("vit", "eager", False), "ts", 14, "fp32", True))
    truth = comparing.answers(one)
    assert measure(one, peer, truth, tmp_path).state == "ok"


def test_equal_exports_are_measured_once() -> None:
    """The same nodes have one fingerprint, whatever the names of nodes; other sizes or dtypes have another."""
    fixed, free = (
        table.fingerprint(export(Case(Variant("sdpa", "own", False), "ts", 17, "fp32", dynamic)))
        for dynamic in (False, True)
    )
    assert fixed != free
    assert Counter(fixed.splitlines()[:3]) == Counter(["sdpa", "fp32", "fixed"])


def test_a_peer_that_crashes_is_one_cell() -> None:
    """Its process dies alone, and the next call has another."""
    try:
        assert apart(os._exit, 1) is None
        assert apart(abs, -3) == 3
    finally:
        close()
