"""Real exports and onnx's own cases in parts, and merged again: each part is valid, and together they are the whole."""

import onnx
import pytest

import surgeon
from surgeon.edits import Extract
from tests import sampling
from tests.edits.sized_exports import ARCHITECTURES, EXPORTERS, export
from tests.onnx_cases import onnx_cases

SAMPLE = [("bert", "ts"), ("t5", "dynamo"), ("unet", "ts"), ("lstm", "dynamo")]
EVERY = [(arch, exporter) for arch in ARCHITECTURES for exporter in EXPORTERS]
MADE_TO_REPEAT = ("test_reduce_log_sum_desc_axes_expanded", "test_reduce_log_sum_asc_axes_expanded")
"""Cases whose input of axes is made with the same axis twice, which leaves one more than the standard says."""


def names(values):
    return [value.name for value in values]


def joined(first, second):
    """Two parts made one: what both take is one, and what the first gives feeds the second."""
    given = {*names(first.graph.output), *names(first.graph.input)}
    connect = {name: name for name in names(second.graph.input) if name in given}
    return surgeon.merge(first, second, connect=connect)


@pytest.mark.parametrize(("arch", "exporter"), sampling.chosen(lambda: SAMPLE, lambda: EVERY))
def test_an_export_in_parts_is_the_export(arch, exporter):
    model = onnx.load(export(arch, exporter).path)
    parts, report = surgeon.split(model, parts=3)
    assert report.outcome == "proved"
    assert report.by_structure
    for part in parts:
        onnx.checker.check_model(part, full_check=True)
    middle = report.parts[1]
    part, extracted = surgeon.edit(model, Extract(middle.inputs, middle.outputs), check="model")
    assert extracted.outcome == "proved"
    assert part == parts[1]
    head, merged = joined(parts[0], parts[1])
    assert merged.outcome == "proved"
    assert set(middle.outputs) <= set(names(head.graph.output))


def multiple():
    """onnx's cases of several nodes: functions that are written out."""
    return [case for case in onnx_cases() if len(case.model.graph.node) > 1 and case.name not in MADE_TO_REPEAT]


@pytest.mark.parametrize("turn", range(4))
def test_onnx_cases_of_several_nodes_in_parts_are_the_whole(turn):
    cases = multiple()[turn :: 4 if sampling.is_whole() else 40]
    outcomes = [outcome_of(case.model) for case in cases]
    assert len(outcomes) > 5
    assert set(outcomes) <= {"proved", "whole"}
    assert outcomes.count("proved") > len(outcomes) // 2


def outcome_of(model):
    try:
        return surgeon.split(model, parts=2)[1].outcome
    except surgeon.UsageError as refusal:  # a single node that depends on inputs, or a tensor that nobody knows
        known = any(word in str(refusal) for word in ("cannot be cut into 2 parts", "cannot be inferred"))
        return "whole" if known else str(refusal)


def test_onnx_cases_of_one_node_are_their_own_part():
    every = [one for one in onnx_cases() if len(one.model.graph.node) == 1]
    for case in sampling.chosen(lambda: every[::4], lambda: every):
        inputs, outputs = (tuple(names(side)) for side in (case.model.graph.input, case.model.graph.output))
        read = {name for node in case.model.graph.node for name in node.input}
        made, report = surgeon.edit(
            case.model, Extract(tuple(name for name in inputs if name in read), outputs), check="none"
        )
        assert made.graph.node == case.model.graph.node
        assert report.outcome in ("unchanged", "proved")
