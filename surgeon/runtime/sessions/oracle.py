"""Oracles: engines that run a mini-model, the most authoritative first.

1. ONNX Runtime's kernels.
2. A user's Python implementation, in a worker.  It precedes the rule's own pattern.
3. onnx's ReferenceEvaluator, with surgeon's formula for an operator outside of ONNX.
4. ONNX Runtime, with the operation's reference pattern as the body of nodes without a kernel.
5. onnx's ReferenceEvaluator, with the reference pattern of operators that it does not have either.

Only a missing kernel leads to the next oracle.  A model that ONNX Runtime finds invalid is invalid.
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
from surgeon.runtime.sessions.engine_names import NODE_BY_NODE
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.node_by_node import NodeByNodeSession, used_implementations
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from surgeon.runtime.sessions.unknown_ops import unknown_ops, unknown_ops_hint

OWN_PATTERN = "the rule's own pattern under ONNX Runtime"
EVALUATOR = "onnx's ReferenceEvaluator"
WITH_FORMULA = "onnx's ReferenceEvaluator, with surgeon's own formula of {}"
OWN_PATTERN_EVALUATED = "the rule's own pattern under onnx's ReferenceEvaluator"


class Oracle(ModelSession, Protocol):
    """An engine that runs one mini-model.

    `name` is for messages.  `is_independent` is False if the rule's own pattern computes the operator that the rule
    wrote.  That proves the wiring around the operator, but not the operator.
    """

    is_independent: bool


def _known_as(
    engine: OrtSession | NodeByNodeSession | EvaluatorSession, name: str, is_independent: bool = True
) -> Oracle:
    """The engine with the name of its oracle."""
    engine.name, engine.is_independent = name, is_independent
    return engine


def open_oracle(
    mini: ModelProto,
    custom_ops: Sequence[Path | str] = (),
    bodies: Mapping[str, FunctionProto] | None = None,
    *,
    limit: float | None = None,
) -> Oracle:
    """Return the first oracle that supports the mini-model.  A context manager: leave it, or its memory stays in use.

    custom_ops: shared libraries for ONNX Runtime, and Python files (`.py`) of implementations.  bodies: the reference
    patterns of operations by node name (see `node_label`), with inputs and outputs by position.  limit: seconds for one
    call of a Python implementation.

    Raises SessionError for an invalid model; with `is_unsupported` and all reasons if no oracle supports it.  Raises
    UsageError for a Python file that fails.
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
    reasons = list(dict.fromkeys(refusals))
    if unknown := unknown_ops(mini, custom_ops):  # all oracles give the same reason
        reasons = [one for one in reasons if unknown[0][1] in one][:1] or reasons
    raise SessionError(f"{'; '.join(reasons)}{unknown_ops_hint(mini, custom_ops)}.", is_unsupported=True)


def open_evaluator(mini: ModelProto) -> Oracle:
    """Return onnx's ReferenceEvaluator, for a mini-model whose inputs ONNX Runtime's kernels reject.

    Raises SessionError, with `is_unsupported` if it lacks an operator.
    """
    return _evaluated(mini, EVALUATOR, True)


def _attempts(
    mini: ModelProto, custom_ops: Sequence[Path | str], bodies: Mapping[str, FunctionProto], limit: float | None
) -> list[Callable[[], Oracle]]:
    """Functions that open the oracles, in order; each raises SessionError if it does not support the model."""
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
    """ONNX Runtime with its kernels.

    On a CPU it computes float16 in float32, and does not round between two such nodes.  A runtime with float16 kernels
    does round, so each node runs separately.
    """
    _require_kernels(mini)
    session = OrtSession(mini, libraries)
    if uses_float16(mini):
        try:
            return _known_as(NodeByNodeSession(mini, (), libraries), NODE_BY_NODE)
        except SessionError as refused:
            if not refused.is_unsupported:  # only a session of the whole model supports a library's operator
                raise
    return session


def _require_kernels(mini: ModelProto) -> None:
    """Raise SessionError if ONNX Runtime would run an imprecise function body (quirks.IMPRECISE_GROUP_NORM)."""
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
    """ONNX Runtime with the reference patterns as bodies; if it rejects these, the model may still be valid."""
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
    """Whether a node is outside of ONNX and the evaluator computes it with surgeon's formula."""
    return (node.domain, node.op_type) in REFERENCE_KERNELS and not onnx.defs.has(node.op_type, node.domain)


def _require_types(model: ModelProto) -> None:
    """Raise SessionError for types or shapes that do not match, because numpy accepts any.

    Types after an operator that onnx does not have are unknown.
    """
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:  # the last for broken attributes
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise SessionError(lines[0] if lines else "The types in the graph do not match.") from error
