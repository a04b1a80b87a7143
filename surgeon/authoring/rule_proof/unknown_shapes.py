"""Proves a rewrite of a model without shapes: its result is compared with the instance at known shapes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from surgeon.authoring.rule_proof.differential import Feeds, compare_outputs
from surgeon.authoring.rule_proof.instance_rewrite import InstanceRewrite
from surgeon.authoring.rule_proof.pattern_arguments import SIZES
from surgeon.authoring.rule_proof.result import InstanceOutcome, InstanceResult
from surgeon.errors import SurgeonError
from surgeon.rules.rule import Rule
from surgeon.runtime.inputs.fill import Fill
from surgeon.runtime.inputs.float_fills import NON_FINITE, USUAL, WIDE, ZEROS
from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown

# Sizes of the symbols: all different at first, so that mixed-up dims show.
_SETTINGS = (SIZES, dict(zip(SIZES, (5, 2, 7, 3, 9, 8), strict=True)), dict.fromkeys(SIZES, 1))
_FILLS = (USUAL, WIDE, ZEROS, NON_FINITE)


def prove_without_shapes(
    model: onnx.ModelProto, rule: Rule, target: str, custom_ops: Sequence[str | Path] = ()
) -> InstanceResult | None:
    """Prove the rewrite of an instance without shapes; None if the rule does not fire or writes the same as with them.

    The rule sees the instance without shapes.  The result is then run at the shapes of the instance.
    custom_ops: as for `compare_outputs`.
    """
    try:
        blind = InstanceRewrite(without_shapes(model), rule, target)
        if not blind.has_fired or _body(blind.rewritten) == _body(InstanceRewrite(model, rule, target).rewritten):
            return None
    except SurgeonError as error:
        return InstanceResult(InstanceOutcome.FAILED, f"without declared shapes: {error}")
    try:
        inputs = [(fill, feeds) for fill, feeds in _inputs(model) if {*rule.differs}.isdisjoint(fill.kinds)]
    except InputsUnknown as unknown:
        return InstanceResult(
            InstanceOutcome.UNPROVED, f"without declared shapes, no inputs can be generated: {unknown.reason}"
        )
    found = compare_outputs(
        model, with_shapes(blind.rewritten, model), inputs, custom_ops=custom_ops, slack=rule.approximate
    )
    return replace(found, reason=f"without declared shapes: {found.reason}") if found.reason else found


def _inputs(model: onnx.ModelProto) -> Iterator[tuple[Fill, Feeds]]:
    """Inputs of several sizes; at the first sizes, filled in several ways."""
    plan = InputGenerator(model, names=False)
    for place, sizes in enumerate(_SETTINGS):
        for fill in _FILLS if not place and plan.edged else _FILLS[:1]:
            fills = dict.fromkeys(plan.edged, fill)
            yield fill, plan.generate(0, {name: sizes[name] for name in plan.free}, fills)


def without_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with inputs and outputs of unknown rank."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for value in (*found.graph.input, *found.graph.output):
        value.type.tensor_type.ClearField("shape")
    return found


def with_shapes(model: onnx.ModelProto, other: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the inputs and outputs of another."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for mine, theirs in ((found.graph.input, other.graph.input), (found.graph.output, other.graph.output)):
        del mine[:]
        mine.extend(theirs)
    return found


def _body(model: onnx.ModelProto) -> tuple[list[bytes], list[bytes]]:
    """The nodes and constants of a graph."""
    graph = model.graph
    return (
        [node.SerializeToString(deterministic=True) for node in graph.node],
        [tensor.SerializeToString(deterministic=True) for tensor in graph.initializer],
    )
