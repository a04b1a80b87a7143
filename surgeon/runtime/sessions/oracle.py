"""Oracles: what runs a mini-model, in the order of how far their word counts.

1. ONNX Runtime's own kernels.
2. A user's Python implementation, in a process of its own: who gives one wants it asked before the rule itself is.
3. onnx's ReferenceEvaluator, where it has a formula of ours for an operator that is none of ONNX's own.
4. ONNX Runtime, with the operation's reference pattern as the body of nodes that it has no kernel for.
5. onnx's ReferenceEvaluator, with the reference pattern where it does not know an operator either.

Only a kernel that is missing leads on to the next.  A model that ONNX Runtime finds wrong is wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import onnx
from onnx import FunctionProto, ModelProto, NodeProto

from surgeon.errors import GraphError
from surgeon.ops.traversal import nodes_of, uses_float16
from surgeon.runtime.function_inlining import attach_function_bodies, node_label
from surgeon.runtime.implementations.implementation import Implementation
from surgeon.runtime.kernels.kernel_registry import REFERENCE_KERNELS
from surgeon.runtime.quirks import IMPRECISE_BODIES
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.node_by_node import NodeByNodeSession, used_implementations
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from surgeon.runtime.sessions.unknown_ops import unknown_ops, unknown_ops_hint

ONNX_RUNTIME = OrtSession.name
NODE_BY_NODE = "ONNX Runtime, node by node"  # as float16 has to be: in one graph, casts in between are dropped
OWN_PATTERN = "the rule's own pattern under ONNX Runtime"
KERNEL_ORACLES = (ONNX_RUNTIME, NODE_BY_NODE)
EVALUATOR = "onnx's ReferenceEvaluator"
WITH_FORMULA = "onnx's ReferenceEvaluator, with surgeon's own formula of {}"
OWN_PATTERN_EVALUATED = "the rule's own pattern under onnx's ReferenceEvaluator"


class Oracle(ModelSession, Protocol):
    """What runs one mini-model.

    `name` tells people which it is.  `is_independent` is False where the rule's own pattern computes what the rule
    wrote: that proves the wiring around it, and not the operator.
    """

    is_independent: bool


def _known_as(
    engine: OrtSession | NodeByNodeSession | EvaluatorSession, name: str, is_independent: bool = True
) -> Oracle:
    """An engine under the name of the oracle that it is here."""
    engine.name, engine.is_independent = name, is_independent
    return engine


def open_oracle(
    mini: ModelProto,
    custom_ops: Sequence[Path | str] = (),
    bodies: Mapping[str, FunctionProto] | None = None,
    *,
    limit: float | None = None,
) -> Oracle:
    """Return the first oracle that takes the mini-model.  A context manager: leave it, or its memory stays in use.

    `custom_ops` are shared libraries for ONNX Runtime, and Python files (`.py`) of implementations.  `bodies` holds
    the reference patterns of nodes' operations, with their inputs and outputs by position, by the node's name (that of
    its first output where it has none).  `limit` is how many seconds one call of a Python implementation may take.

    Raises SessionError: without `missing` for a model that is wrong, with `missing` where no oracle takes it, saying
    why of each.  Raises UsageError for a Python file that cannot be run.
    """
    refusals: list[str] = []
    for attempt in _attempts(mini, custom_ops, bodies or {}, limit):
        try:
            return attempt()
        except SessionError as refused:
            if not refused.is_unsupported:
                raise
            refusals.append(refused.message.rstrip("."))
        except GraphError as wrong:
            raise SessionError(str(wrong)) from wrong
    told = list(dict.fromkeys(refusals))
    if unknown := unknown_ops(mini, custom_ops):  # of which all say the same
        told = [one for one in told if unknown[0][1] in one][:1] or told
    raise SessionError(f"{'; '.join(told)}{unknown_ops_hint(mini, custom_ops)}.", is_unsupported=True)


def open_evaluator(mini: ModelProto) -> Oracle:
    """Return onnx's ReferenceEvaluator alone, for a mini-model of which ONNX Runtime's kernels run no inputs.

    Raises SessionError: with `missing` where it lacks an operator.
    """
    return _evaluated(mini, EVALUATOR, True)


def _attempts(
    mini: ModelProto, custom_ops: Sequence[Path | str], bodies: Mapping[str, FunctionProto], limit: float | None
) -> list[Callable[[], Oracle]]:
    """Return the ways to open an oracle, in order; each raises SessionError where it does not take the model."""
    ways: list[Callable[[], Oracle]] = [lambda: _with_kernels(mini, custom_ops)]
    if found := used_implementations(mini, custom_ops):
        ways.append(lambda: _by_implementation(mini, found, custom_ops, bodies={}, limit=limit))
        if rest := _without_implementation(mini, found, bodies):
            ways.append(lambda: _by_implementation(mini, found, custom_ops, bodies=rest, limit=limit))
    if any((node.domain, node.op_type) in IMPRECISE_BODIES or _has_our_formula(node) for node in nodes_of(mini)):
        ways.append(lambda: _evaluated(mini, EVALUATOR, True))
    if bodies:
        ways.append(lambda: _by_own_pattern(mini, custom_ops, bodies))
    ways.append(lambda: _evaluated(mini, EVALUATOR, True))
    if bodies:
        ways.append(lambda: _evaluated(attach_function_bodies(mini, bodies), OWN_PATTERN_EVALUATED, False))
    return ways


def _with_kernels(mini: ModelProto, libraries: Sequence[Path | str]) -> Oracle:
    """ONNX Runtime as it is.

    On a CPU it computes float16 in float32, and does not round between two such nodes.  A runtime that has float16
    does, so each node runs by itself.
    """
    _require_kernels(mini)
    session = OrtSession(mini, libraries)
    if uses_float16(mini):
        try:
            return _known_as(NodeByNodeSession(mini, (), libraries), NODE_BY_NODE)
        except SessionError as refused:
            if not refused.is_unsupported:  # a library's operator is known to whole sessions alone
                raise
    return session


def _require_kernels(mini: ModelProto) -> None:
    """Raise SessionError where ONNX Runtime runs a body with too few digits (quirks.IMPRECISE_GROUP_NORM)."""
    for node in nodes_of(mini):
        if (node.domain, node.op_type) in IMPRECISE_BODIES:
            raise SessionError(f"ONNX Runtime has no kernel for {node.op_type}.", is_unsupported=True)


def _without_implementation(
    mini: ModelProto, found: Sequence[Implementation], bodies: Mapping[str, FunctionProto]
) -> dict[str, FunctionProto]:
    """Return the bodies of nodes that no Python implementation computes."""
    known = {(one.domain, one.op) for one in found}
    served = {node_label(node) for node in nodes_of(mini) if (node.domain, node.op_type) in known}
    return {name: body for name, body in bodies.items() if name not in served}


def _by_implementation(
    mini: ModelProto,
    found: Sequence[Implementation],
    custom_ops: Sequence[Path | str],
    bodies: Mapping[str, FunctionProto],
    limit: float | None,
) -> Oracle:
    model = attach_function_bodies(mini, bodies) if bodies else mini
    _require_types(model)
    engine = NodeByNodeSession(model, found, custom_ops, limit)
    name = f"{engine.name}, and the rule's own pattern" if bodies else engine.name
    return _known_as(engine, name, not bodies)


def _by_own_pattern(mini: ModelProto, custom_ops: Sequence[Path | str], bodies: Mapping[str, FunctionProto]) -> Oracle:
    """ONNX Runtime with the reference patterns as bodies; that it does not load these is no fault of the model."""
    try:
        return _known_as(OrtSession(attach_function_bodies(mini, bodies), custom_ops), OWN_PATTERN, False)
    except SessionError as refused:
        raise SessionError(refused.message, is_unsupported=True) from refused


def _evaluated(model: ModelProto, name: str, independent: bool) -> Oracle:
    _require_types(model)
    foreign = dict.fromkeys(node.op_type for node in nodes_of(model) if _has_our_formula(node))
    if foreign and independent:
        name = WITH_FORMULA.format(", ".join(foreign))
    return _known_as(EvaluatorSession(model), name, independent)


def _has_our_formula(node: NodeProto) -> bool:
    """Whether a node is none of ONNX's own, and known to the evaluator through us alone."""
    return (node.domain, node.op_type) in REFERENCE_KERNELS and not onnx.defs.has(node.op_type, node.domain)


def _require_types(model: ModelProto) -> None:
    """Raise SessionError where types or shapes do not fit, for numpy would compute on with whatever they are.

    Operators that onnx does not know end what can be told of the tensors behind them.
    """
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:  # the last for broken attributes
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise SessionError(lines[0] if lines else "The types of the graph do not fit.") from error
