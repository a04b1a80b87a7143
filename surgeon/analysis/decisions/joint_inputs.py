"""Whether a model's decisions depend on several inputs jointly, through exact arithmetic."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from onnx import AttributeProto

from surgeon.analysis.decisions.thresholds import constant_source, input_dtypes, numbers
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.traits.dtype_traits import DISCONTINUOUS, UNBOUNDED_SUMS
from surgeon.ops.traits.trait_lookup import guess_traits
from surgeon.shapes.tensor_types import FLOATS

JOINED = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
"""Input values whose sums and products are exact and often equal thresholds."""
FINEST = 2.0**-6  # resolution of such constants
_LARGEST = 2.0**10  # maximum magnitude of such constants
_MAX_ELEMENTS = 1 << 14  # maximum number of elements of such a constant


def has_exact_joint_decision(index: Index) -> bool:
    """Whether a decision depends on several float inputs jointly, and all decisions on floats are exact.

    Exact for halves and small integers: sums, differences, products, maxima and data movement; constants must be such
    numbers too.  Decisions in bodies and functions are not analysed: the result is False then.
    """
    main, *inside = index.scopes
    if any(True for scope in inside for _ in _decided(scope)):
        return False
    walk = _ExactSteps(main)
    found = [walk.of(tensor) for tensor in _decided(main)]
    dependent = [(is_exact, joins) for is_fed, is_exact, joins in found if is_fed]
    return all(is_exact for is_exact, _ in dependent) and any(joins for _, joins in dependent)


def _decided(scope: Scope) -> Iterator[str]:
    """The tensors on which nodes decide."""
    for node in scope.nodes:
        op = guess_traits(node.op)
        leaps = (
            op.name in DISCONTINUOUS
            or op.numerics.rounding_scale_slot is not None
            or op.algebra.compares
            or op.numerics.is_argsort_like
        )
        if (
            leaps
            or op.dtype.returns_indices
            or op.dtype.later_outputs_are_indices
            or split_op(node.op)[0] == "ai.onnx.ml"
            or (op.dtype.is_cast and _casts_to_exact(node))
        ):
            yield from (
                name
                for name in node.inputs
                if name and constant_source(scope, name) is None and not op.shape.reads_only_shape
            )


def _casts_to_exact(node: Node) -> bool:
    """Whether a Cast returns integers or booleans."""
    target = node.attribute("to")
    return target is not None and target.i not in FLOATS


class _ExactSteps:
    """Dependence of a graph's tensors on float inputs: whether, whether exactly, and whether on several."""

    def __init__(self, scope: Scope) -> None:
        self._scope, self._fed = scope, input_dtypes(scope)
        self._known: dict[str, tuple[bool, bool, bool]] = {}

    def of(self, tensor: str) -> tuple[bool, bool, bool]:
        """Whether it depends on float inputs, whether exactly, and whether on several jointly."""
        pending, entered = [tensor], set[str]()
        while pending:
            name = pending[-1]
            node = self._scope.producers.get(name)
            reads = [] if node is None or self._is_constant(name) else [read for read in node.inputs if read]
            waiting = [read for read in reads if read not in self._known]
            if not entered.isdisjoint(waiting):  # a cycle, which runtimes refuse
                self._known.update(dict.fromkeys(entered, (True, False, False)))
                continue
            if waiting:
                entered.add(name)
                pending += waiting
                continue
            pending.pop()
            entered.discard(name)
            if name not in self._known:
                self._known[name] = self._input_kind(name) if node is None or not reads else self._computed(node, reads)
        return self._known[tensor]

    def _input_kind(self, name: str) -> tuple[bool, bool, bool]:
        return self._fed.get(name) in FLOATS and not self._is_constant(name), True, False

    def _is_constant(self, name: str) -> bool:
        return constant_source(self._scope, name) is not None

    def _computed(self, node: Node, reads: list[str]) -> tuple[bool, bool, bool]:
        known = [self._known[read] for read in reads]
        is_fed = any(fed for fed, _, _ in known) or any(item.HasField("g") for item in node.proto.attribute)
        if guess_traits(node.op).shape.reads_only_shape or not is_fed:
            return False, True, False
        way = self._combination(node, reads)
        joins = way == "joins" or any(joined for _, _, joined in known)
        return True, way is not None and all(exact for _, exact, _ in known), joins

    def _combination(self, node: Node, reads: list[str]) -> Literal["joins", "goes"] | None:
        """How a node combines its inputs: "joins" several, "goes" on exactly, or None with rounding."""
        op, free = guess_traits(node.op), [read for read in reads if not self._is_constant(read)]
        if op.name in UNBOUNDED_SUMS:
            return "joins"
        is_product = (op.products.kind == "matmul" and op.products.factors is not None) or op.products.kind == "conv"
        if is_product or (op.algebra.family and (op.algebra.family == "sum" or -1 not in op.algebra.signs)):
            scaled = any(item.type == AttributeProto.FLOAT and item.f != 1 for item in node.proto.attribute)
            joins: Literal["joins", "goes"] = "joins" if is_product or len(free) > 1 else "goes"
            return joins if not scaled and all(map(self._is_plain, reads)) else None
        if op.numerics.reduces == "extremum":
            return "joins"
        # Decisions themselves are checked where they are made.
        if op.dtype.returns_indices or op.algebra.compares or op.dtype.returns_bool:
            return "goes"
        is_moved = op.data.copies_elements or op.shape.is_reshape or op.dtype.is_cast
        return "goes" if is_moved or op.numerics.exact else None

    def _is_plain(self, name: str) -> bool:
        """Whether a tensor is not a constant, or is one of halves and small integers."""
        if not self._is_constant(name):
            return True
        found = numbers(self._scope, name, _MAX_ELEMENTS)
        with np.errstate(all="ignore"):
            fine = found / FINEST
            return bool(found.size and np.all((np.abs(found) <= _LARGEST) & (fine == np.rint(fine))))
