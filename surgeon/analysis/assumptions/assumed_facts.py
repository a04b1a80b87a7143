"""The consequences of assumptions on a model's inputs for other tensors.

Nodes that only move elements, such as Reshape and Slice, keep the words about each element.  A Reshape that keeps the
last axis also keeps those about rows.  A Cast keeps the words that survive the rounding to the new dtype.
"""

import math
from collections.abc import Callable
from functools import reduce

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from surgeon.analysis.assumptions.assumption import (
    FINITE,
    MASK,
    MASKS,
    NO_PADDING,
    NONZERO,
    SORTED,
    Assumption,
    dtype_limits,
    is_integral,
)
from surgeon.analysis.assumptions.model_assumptions import Assumptions, assumptions_of, dtype_of_input
from surgeon.analysis.dataflow import Dataflow
from surgeon.analysis.integer_range import IntegerRanges
from surgeon.errors import UsageError
from surgeon.ir.edges import Tensor
from surgeon.ir.index import Index
from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.constraints.input_dims import required_inputs
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import INTEGERS_AND_BOOL

NOTHING = Assumption()
"""The fact of a tensor without assumptions."""


class AssumedFacts(Dataflow[Assumption | None]):
    """The assumptions on each tensor; None before they are known.

    shapes: of the model, or of its source, because a proof may not depend on nodes that rules wrote.  declared: the
    assumptions, by default those that the model carries.
    """

    def __init__(self, shapes: ShapeInference, declared: Assumptions | None = None) -> None:
        super().__init__(None, beyond=NOTHING)
        self._shapes, self._origin = shapes, shapes.origin
        self.declared = assumptions_of(self._origin.model.skeleton) if declared is None else declared
        self._main = self._origin.scope(self._origin.index.main)

    @classmethod
    def of(cls, index: Index) -> "AssumedFacts":
        """The facts of a model during rewriting, cached with its index."""
        return index.cached_analysis(AssumedFacts, lambda: AssumedFacts(shapes_of(index)))

    @classmethod
    def of_source(cls, origin: OriginalModel) -> "AssumedFacts":
        """The facts of the model in its file, cached with its index."""
        return origin.index.cached_analysis(_SourceFacts, lambda: _SourceFacts(ShapeInference(origin)))

    def at(self, scope: Scope, name: str) -> Assumption:
        """The assumption on a tensor that is visible in a scope."""
        home = self._origin.scope(scope).defining_scope(name) if self.declared else None
        return NOTHING if home is None else self[Tensor(home, name)] or NOTHING

    def join(self, one: Assumption | None, other: Assumption | None) -> Assumption | None:
        return other if one is None else one if other is None else one.covering(other)

    def equation(self, tensor: Tensor, fact: Callable[[Tensor], Assumption | None]) -> Assumption | None:
        scope, name, _ = tensor
        node = scope.producers.get(name)
        if node is None:
            return self.declared.get(name, NOTHING) if scope is self._main else NOTHING
        traits, inputs = traits_of(node.op), self._origin.inputs(node)
        is_same, is_cast = traits.data.identity_when == "always", traits.dtype.is_cast
        slots = (0,) if is_cast else traits.data.copies_elements
        names = [name for place, name in enumerate(inputs) if name and place in slots]
        homes = [scope.defining_scope(name) for name in names]
        if not names or None in homes:
            return NOTHING
        facts = [fact(Tensor(home, name)) for home, name in zip(homes, names, strict=True) if home is not None]
        found = reduce(self.join, facts)
        if found is None or is_same:
            return found
        if is_cast:
            return self._cast(found, node)
        is_whole = traits.shape.is_reshape and self._keeps_rows(scope, inputs[0], name)
        return found if is_whole else found.of_elements

    def _keeps_rows(self, scope: Scope, before: str, after: str) -> bool:
        """Whether a reshape keeps the last axis."""
        one, other = (self._shapes.shape(scope, name) for name in (before, after))
        return bool(one) and bool(other) and one[-1] == other[-1]  # type: ignore[index]

    def _cast(self, found: Assumption, node: Node) -> Assumption:
        """The assumption on the elements in another dtype."""
        names = self._origin.inputs(node)[0], node.outputs[0]
        old, new = (self._shapes.dtype(node.scope, name) for name in names)
        if not old or not new or TensorProto.STRING in (old, new):
            return NOTHING
        return cast_fact(found, *(np.dtype(helper.tensor_dtype_to_np_dtype(dtype)) for dtype in (old, new)))


def follows(index: Index, scope: Scope, name: str, wanted: Assumption) -> bool:
    """Whether a tensor that is visible in a scope provably satisfies an assumption.

    The reasons are its value, the assumptions on the model's inputs, its dtype, and the ranges of integers.
    """
    if index.constants.is_constant(scope, name):
        array = index.constants.array(scope, name)
        return array is not None and array.dtype.kind in "iubf" and wanted.violation(array) is None
    known, shapes = AssumedFacts.of(index).at(scope, name), shapes_of(index)
    if shapes.dtype(scope, name) in INTEGERS_AND_BOOL and not known.implies(wanted):
        ranges = IntegerRanges(index, shapes.dtype)
        least, largest, *_ = ranges[ranges.edges.tensor(scope, name)]
        low, high = known.bounds or (least, largest)
        if max(least, low) <= min(largest, high):
            words = (*known.words, MASK) if max(least, low) >= 0 and min(largest, high) <= 1 else known.words
            known = Assumption.of(words, (max(least, low), min(largest, high)))
    return known.implies(wanted)


def assumable_input(index: Index, scope: Scope, name: str, wanted: Assumption) -> str | None:
    """The input of the model that decides whether a tensor satisfies an assumption; None if no single one does."""
    shapes = shapes_of(index)
    for entry in required_inputs(index.model.skeleton.graph).values():
        try:
            wanted.require_dtype(dtype_of_input(entry))
        except UsageError:
            continue
        if AssumedFacts(shapes, {entry.name: wanted}).at(scope, name).implies(wanted):
            return entry.name
    return None


class _SourceFacts(AssumedFacts):
    """Facts that do not depend on nodes that a rule wrote."""


def cast_fact(found: Assumption, old: np.dtype, new: np.dtype) -> Assumption:
    """The assumption on elements in another dtype.  found: that in the old dtype."""
    if not set(MASKS).isdisjoint(found.words):
        return found  # every dtype holds 0 and 1
    if new == np.bool_:
        return Assumption.of((NO_PADDING,)) if NONZERO in found.words else NOTHING
    is_rounded = is_integral(new) and not is_integral(old)
    (least, largest), (low, high) = found.bounds or dtype_limits(old), dtype_limits(new)
    if not low <= least <= largest <= high or (is_rounded and found.bounds is None):
        return NOTHING  # it may wrap, or become infinite
    may_vanish = is_rounded or (not is_integral(old) and _least_positive(new) > _least_positive(old))
    words = set(found.words).intersection((SORTED, FINITE, *(() if may_vanish else (NONZERO,))))
    if found.bounds is None:
        return Assumption.of(words)
    ends = (math.trunc(least), math.trunc(largest)) if is_rounded else (least, largest)
    return Assumption.of(words, ends if is_integral(new) else (_rounded(ends[0], new), _rounded(ends[1], new)))


def _least_positive(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).smallest_subnormal)


def _rounded(number: float, dtype: np.dtype) -> float:
    return float(np.asarray(number).astype(dtype))
