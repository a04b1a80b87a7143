"""The decisions of a model, and the sides of each that some inputs reach."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper

from surgeon.ops.traits.op_traits import DataTraits, OpTraits
from surgeon.ops.traits.trait_lookup import node_traits

Sides: TypeAlias = Mapping[str, bool]
"""The sides of a decision in words, and whether some element reaches each."""


class Decision(NamedTuple):
    """A node whose result depends on the side of a threshold on which an element lies."""

    op: str
    """Its operator."""
    output: str
    """Its first output, by which messages name it."""
    reads: tuple[str, ...]
    """The tensors on which it decides."""
    sides: Callable[..., Sides]
    """From the arrays of `reads` to the sides; empty if they contain nothing to decide on."""


def decisions_of(graph: GraphProto) -> list[Decision]:
    """The decisions of a graph: comparisons, bounds, roundings, casts to integers and booleans, indices, conditions.

    Nodes in bodies and functions, and decisions on constants, are omitted.
    """
    constants = {tensor.name for tensor in graph.initializer}
    constants.update(name for node in graph.node if not node.input for name in node.output)
    found = (decision for node in graph.node for decision in _decisions(node, node_traits(node)))
    return [decision for decision in found if not constants.issuperset(decision.reads)]


def _decisions(node: NodeProto, op: OpTraits) -> Iterator[Decision]:
    """The decisions of a node."""

    def at(slots: Sequence[int], sides: Callable[..., Sides]) -> Iterator[Decision]:
        reads = tuple(node.input[slot] for slot in slots if slot < len(node.input))
        if all(reads) and len(reads) == len(slots):
            yield Decision(node.op_type, node.output[0], reads, sides)

    known, scale = op.data, op.numerics.rounding_scale_slot
    is_elementwise = op.shape.same_type_as_input and op.numerics.exact
    if op.algebra.comparison:
        yield from at((0, 1), _equal if op.algebra.comparison == "=" else _ordered)
    elif op.shape.broadcasts and op.algebra.commutes and len(known.copies_elements) > len(node.input):
        for slot in range(1, len(node.input)):  # the largest or smallest of several
            yield from at((slot - 1, slot), _ordered)
    elif scale is not None:
        yield from at((0, scale) if scale else (0,), _rounded_by(node))
    elif op.dtype.is_cast:
        yield from at((0,) if len(node.input) == 1 else (0, 1), _cast_by(node))
    elif is_elementwise and known.nearly_copies_elements == (0,) and not op.operands.offsets:
        for slot in range(1, len(node.input)):
            yield from at((0, slot), _bounded_by("lower" if slot == 1 else "upper"))
    elif is_elementwise and len(node.input) == 1 and not op.algebra.family and known == DataTraits(foldable=True):
        yield from at((0,), _signed)
    for lookup in op.indexing.lookups:
        yield from at((lookup.indices,), _indexed)
    if op.indexing.bounded_indices is not None:
        yield from at(op.indexing.bounded_indices, _indexed_below)
    for slot in dict.fromkeys((*op.control.selectors, *op.control.conditions)):
        yield from at((slot,), _chosen)


def _ordered(one: np.ndarray, other: np.ndarray) -> Sides:
    return {
        "a smaller first input": bool(np.any(one < other)),
        "equal inputs": bool(np.any(one == other)),
        "a larger first input": bool(np.any(one > other)),
    }


def _equal(one: np.ndarray, other: np.ndarray) -> Sides:
    return {"equal inputs": bool(np.any(one == other)), "different inputs": bool(np.any(one != other))}


def _bounded_by(which: str) -> Callable[..., Sides]:
    def sides(array: np.ndarray, bound: np.ndarray) -> Sides:
        return {
            f"a number below the {which} bound": bool(np.any(array < bound)),
            f"a number at the {which} bound": bool(np.any(array == bound)),
            f"a number above the {which} bound": bool(np.any(array > bound)),
        }

    return sides


def _rounded_by(node: NodeProto) -> Callable[..., Sides]:
    axis = next((item.i for item in node.attribute if item.name == "axis"), 1)

    def sides(array: np.ndarray, *scales: np.ndarray) -> Sides:
        numbers = array.astype(np.float64)
        for scale in scales:
            if scale.size == 1:
                numbers = numbers / scale.astype(np.float64).reshape(())
            elif scale.ndim == 1 and -array.ndim <= axis < array.ndim and scale.size == array.shape[axis]:
                shape = [1] * array.ndim
                shape[axis] = scale.size
                numbers = numbers / scale.astype(np.float64).reshape(shape)
            else:
                return {}  # a scale for each block
        fraction = _fractions(numbers)
        return {
            "an integer": bool(np.any(fraction == 0)),
            "a half": bool(np.any(fraction == 0.5)),
            "another fraction": bool(np.any((fraction != 0) & (fraction != 0.5))),
        }

    return sides


def _cast_by(node: NodeProto) -> Callable[..., Sides]:
    to = next((item.i for item in node.attribute if item.name == "to"), TensorProto.UNDEFINED)

    def sides(array: np.ndarray, *like: np.ndarray) -> Sides:
        kind = (like[0].dtype if like else np.dtype(helper.tensor_dtype_to_np_dtype(to))).kind
        if kind not in "iub" or array.dtype.kind in ("b", "O") or (kind in "iu" and array.dtype.kind in "iu"):
            return {}
        fraction = _fractions(array.astype(np.float64))
        is_float = array.dtype.kind not in "iu"
        if kind != "b":
            return {"an integer": bool(np.any(fraction == 0)), "a fraction": bool(np.any(fraction != 0))}
        found = {"zero": bool(np.any(array == 0)), "a nonzero number": bool(np.any(array != 0))}
        return found | ({"a fraction": bool(np.any(fraction != 0))} if is_float else {})

    return sides


def _fractions(numbers: np.ndarray) -> np.ndarray:
    """The finite numbers minus the next lower integer of each."""
    finite = numbers[np.isfinite(numbers)]
    return np.asarray(finite - np.floor(finite))


def _signed(array: np.ndarray) -> Sides:
    if array.dtype.kind in ("b", "O", "c"):
        return {}
    found = {"zero": bool(np.any(array == 0)), "a positive number": bool(np.any(array > 0))}
    return found if array.dtype.kind == "u" else {"a negative number": bool(np.any(array < 0)), **found}


def _indexed(array: np.ndarray) -> Sides:
    return {
        "a negative index": bool(np.any(array < 0)),
        "index 0": bool(np.any(array == 0)),
        "a larger index": bool(np.any(array > 0)),
    }


def _indexed_below(array: np.ndarray, bound: np.ndarray) -> Sides:
    most = bound.reshape(-1)[:1]
    return {
        "a negative index": bool(np.any(array < 0)),
        "an index within the bound": bool(np.any((array >= 0) & (array < most))),
        "an index beyond the bound": bool(np.any(array >= most)),
    }


def _chosen(array: np.ndarray) -> Sides:
    return {"a true condition": bool(np.any(array)), "a false condition": not bool(np.all(array))}
