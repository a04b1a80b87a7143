"""Whether a model's decisions depend on several inputs jointly, through exact arithmetic."""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
from onnx import AttributeProto

from surgeon.analysis.dataflow import Dataflow
from surgeon.analysis.decisions.thresholds import constant_source, input_dtypes, numbers
from surgeon.ir.edges import Tensor
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.traits.dtype_traits import DISCONTINUOUS, UNBOUNDED_SUMS
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.tensor_types import FLOATS

JOINED = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
"""Input values whose sums and products are exact and often equal thresholds."""
FINEST = 2.0**-6  # resolution of such constants
_LARGEST = 2.0**10  # maximum magnitude of such constants
_MAX_ELEMENTS = 1 << 14  # maximum number of elements of such a constant


def has_exact_joint_decision(index: Index) -> bool:
    """Whether a decision depends on several float inputs jointly, and all decisions on floats are exact.

    Exact for halves and small integers: sums, differences, products, maxima and data movement; constants must be such
    numbers too.  Decisions in bodies and functions are not analysed; with these, the result is False.
    """
    main, *inside = index.scopes
    if any(True for scope in inside for _ in _decided(scope)):
        return False
    steps = _ExactSteps(index)
    dependent = [found for name in _decided(main) if (found := steps[Tensor(main, name)]).is_fed]
    return all(one.is_exact for one in dependent) and any(one.joins for one in dependent)


def _decided(scope: Scope) -> Iterator[str]:
    """The tensors on which nodes decide."""
    for node in scope.nodes:
        op = traits_of(node.op)
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


class _Dependence(NamedTuple):
    """How a tensor depends on float inputs."""

    is_fed: bool = False
    """Whether it does."""
    is_exact: bool = True
    """Whether it does only through exact arithmetic."""
    joins: bool = False
    """Whether it depends on several jointly."""


class _ExactSteps(Dataflow[_Dependence]):
    """The dependence of the tensors of the main graph on float inputs."""

    def __init__(self, index: Index) -> None:
        super().__init__(_Dependence())
        self._scope, self._fed = index.main, input_dtypes(index.main)

    def join(self, one: _Dependence, other: _Dependence) -> _Dependence:
        return _Dependence(one.is_fed or other.is_fed, one.is_exact and other.is_exact, one.joins or other.joins)

    def equation(self, tensor: Tensor, fact: Callable[[Tensor], _Dependence]) -> _Dependence:
        node, is_constant = self._scope.producers.get(tensor.name), self._is_constant(tensor.name)
        reads = [] if node is None or is_constant else [name for name in node.inputs if name]
        if node is None or not reads:
            return _Dependence(self._fed.get(tensor.name) in FLOATS and not is_constant)
        given = [fact(Tensor(self._scope, name)) for name in reads]
        is_fed = any(one.is_fed for one in given) or any(item.HasField("g") for item in node.proto.attribute)
        if traits_of(node.op).shape.reads_only_shape or not is_fed:
            return _Dependence()
        way = self._combination(node, reads)
        joins = way == "joins" or any(one.joins for one in given)
        return _Dependence(is_fed, way is not None and all(one.is_exact for one in given), joins)

    def _is_constant(self, name: str) -> bool:
        return constant_source(self._scope, name) is not None

    def _combination(self, node: Node, reads: list[str]) -> Literal["joins", "goes"] | None:
        """How a node combines its inputs: "joins" several, "goes" on exactly, or None with rounding."""
        op, free = traits_of(node.op), [read for read in reads if not self._is_constant(read)]
        if op.name in UNBOUNDED_SUMS:
            return "joins"
        is_product = (op.products.kind == "matmul" and op.products.factors is not None) or op.products.kind == "conv"
        if is_product or (op.algebra.family and (op.algebra.family == "sum" or -1 not in op.algebra.signs)):
            scaled = any(item.type == AttributeProto.FLOAT and item.f != 1 for item in node.proto.attribute)
            joins: Literal["joins", "goes"] = "joins" if is_product or len(free) > 1 else "goes"
            return joins if not scaled and all(map(self._is_plain, reads)) else None
        if op.numerics.reduces == "extremum":
            return "joins"
        # The inputs of decisions are checked separately.
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
