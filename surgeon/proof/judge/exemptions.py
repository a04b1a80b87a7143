"""Differences that do not count: products that overflow, scores below a mask's fill value, empty tensors."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import numpy as np
from onnx import ModelProto, NodeProto
from onnx.numpy_helper import to_array

from surgeon.ops.traits.trait_lookup import node_traits
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.proof_case import ProofCase
from surgeon.runtime.sessions.oracle import Oracle
from surgeon.runtime.sessions.ort_session import SessionError


def overflows(
    case: ProofCase, feeds: Mapping[str, np.ndarray], oracle: Callable[[ModelProto, Mapping[str, Any]], Oracle]
) -> bool:
    """Whether products of these inputs overflow inside the original, for rules that differ for non-finite numbers.

    The outputs need not show the infinity or NaN: a guard may replace it by zeros.
    """
    if "non_finite" not in case.intended_differences:
        return False
    from surgeon.proof.model.exposed_outputs import exposing  # not at the top: few proofs need it

    before = case.models.before
    known = ((node, node_traits(node).products.kind) for node in before.graph.node)
    products = [name for node, kind in known if kind in ("matmul", "einsum") for name in node.output]
    try:
        with exposing(before, products) as shown, oracle(cast(ModelProto, shown), {}) as inner:
            made = inner.run(dict(feeds))
    except SessionError:
        return False
    return any(name in made and not np.isfinite(made[name]).all() for name in products)


_FORGOTTEN = 104.0  # exp(-104) is 0 in float32: a score so far below the largest of its row has no weight


def reach_fill(
    case: ProofCase, feeds: Mapping[str, np.ndarray], oracle: Callable[[ModelProto, Mapping[str, Any]], Oracle]
) -> bool:
    """Whether all relevant scores of some row are as low as the finite fill value of masked scores.

    There the original gives masked scores a weight, and a rule that takes the fill for -infinity differs on purpose, as
    does a kernel that takes it so.  (LOWEST_FILL_HIDES)
    """
    if "non_finite" not in case.intended_differences:
        return False
    from surgeon.proof.model.exposed_outputs import exposing  # not at the top: few proofs need it

    graph = case.models.before.graph
    given = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    nodes = [node for node in graph.node if node_traits(node).control.selectors or _adds(node)]
    inner = {name for node in graph.node for name in node.output if name}
    read = dict.fromkeys(name for node in nodes for name in (*node.output, *node.input) if name in inner)
    if not read:
        return False
    try:
        with exposing(case.models.before, list(read)) as shown, oracle(cast(ModelProto, shown), {}) as run:
            known = {**given, **feeds, **run.run(dict(feeds))}
    except SessionError:
        return False
    return any(
        _has_low_row(known[node.output[0]], fill)
        for node in nodes
        if node.output[0] in known
        for fill in (_added(node, known) if _adds(node) else _chosen(node, given))
    )


def _adds(node: NodeProto) -> bool:
    """Whether a node adds or subtracts two tensors."""
    return node_traits(node).algebra.family == "sum" and len(node.input) == 2


def _chosen(node: NodeProto, given: Mapping[str, np.ndarray]) -> Iterator[float]:
    """Each constant of one finite negative number from which a node chooses elements."""
    for slot in node_traits(node).data.copies_elements:
        values = np.unique(given.get(node.input[slot], np.zeros(0)))
        if values.size == 1 and -np.inf < values[0] < 0:
            yield float(values[0])


def _added(node: NodeProto, known: Mapping[str, np.ndarray]) -> Iterator[float]:
    """The one finite negative number of a tensor whose other elements are zero, if a node adds it to zeros.

    This masks scores that are multiplied by zeros and ones.
    """
    if not all(name in known for name in node.input):
        return
    for slot, sign in enumerate(node_traits(node).algebra.signs):
        low, kept = known[node.input[slot]] * sign, known[node.input[1 - slot]]
        values = np.unique(low[low != 0])
        if values.size == 1 and -np.inf < values[0] < 0 and not np.where(low != 0, kept, 0).any():
            yield float(values[0])


def _has_low_row(scores: np.ndarray, fill: float) -> bool:
    """Whether a row along the last axis holds the fill, and otherwise only numbers near it or below it."""
    if not scores.ndim or not scores.size:
        return False
    with np.errstate(invalid="ignore"):
        is_low = (scores.max(axis=-1) <= fill + _FORGOTTEN) & (scores == fill).any(axis=-1)
    return bool((is_low & (scores != fill).any(axis=-1)).any())


def cannot_be_empty(case: ProofCase, assignment: DimAssignment | None, name: str) -> bool:
    """Whether a node of the replacement rejects empty tensors, as a Reshape with an open size does.

    Tensors that are empty along the first axis, as a batch without rows, are not considered.  name: of the node.
    """
    graph = case.models.after.graph
    inner = (size for item in case.inputs for size in item.shape[1:])
    if assignment is None or all(assignment.size(size) for size in inner):
        return False
    fixed = {tensor.name for tensor in graph.initializer}
    shaped = (node for node in graph.node if node.name == name and node_traits(node).shape.is_reshape)
    return any(not fixed.isdisjoint(node.input[1:]) for node in shaped)


def all_nan(array: np.ndarray) -> bool:
    """Whether an output is NaN throughout, such as the output of a model that fails everywhere."""
    return array.dtype.kind in "fc" and bool(np.isnan(array).all())
