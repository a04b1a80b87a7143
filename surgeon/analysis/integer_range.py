"""Range analysis: bounds of the elements of a tensor, and whether they are integers."""

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, inf, log2, prod
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, numpy_helper

from surgeon.analysis.assumptions.model_assumptions import assumptions_of
from surgeon.analysis.dataflow import MOST, Dataflow
from surgeon.errors import ModelFileError
from surgeon.file.tensors.decoding import dtype_of
from surgeon.ir.edges import Edges, Tensor
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.dtype_traits import CLIP_BOUNDS, EXPONENTIALS
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.tensor_types import HALVES, INTEGERS_AND_BOOL

SMALL = 1024
"""Maximum number of elements of weights that are read; all weights of int64, the dtype of indices, are read."""

_EXACT_HALVES = 256.0  # up to here, both half-precision dtypes hold all integers


class NumberRange(NamedTuple):
    """The elements of a tensor."""

    least: float
    """Lower bound."""
    largest: float
    """Upper bound."""
    is_integral: bool = False
    """Whether all are integers."""
    of_sizes: bool | None = False
    """Whether they are sizes, or computed from sizes and small constants only; None for small constants."""

    @property
    def magnitude(self) -> float:
        """The bound of their magnitude."""
        return max(abs(self.least), abs(self.largest))


NONE = NumberRange(inf, -inf, is_integral=True, of_sizes=None)
ANY = NumberRange(-inf, inf)


def around_zero(magnitude: float, *, is_integral: bool = False) -> NumberRange:
    """The range of numbers of a magnitude."""
    return NumberRange(-magnitude, magnitude, is_integral)


class IntegerRanges(Dataflow[NumberRange]):
    """The ranges of tensors.

    dtype: returns the dtype of a tensor of a scope.  A subclass may assume that sizes, rows of tables, iterations of a
    Loop, and results of functions that grow slowly are not larger than the numbers here.
    """

    max_size = max_rows = max_trips = tame = max_of_sizes = inf

    def __init__(self, index: Index, dtype: Callable[[Scope, str], int | None], *, most: int = MOST) -> None:
        super().__init__(NONE, most=most, beyond=ANY)
        self.index, self.edges, self._dtype = index, Edges(index), dtype
        self._assumed = assumptions_of(index.model.skeleton)

    def of_input(self, name: str) -> NumberRange:
        """The range of an input of the model: the assumed one, else any number."""
        known = self._assumed.get(name)
        return ANY if known is None or known.bounds is None else NumberRange(*known.bounds)

    def of_constant(self, array: np.ndarray) -> NumberRange:
        """The range of a constant."""
        numbers = array.astype(np.float64).ravel() if array.size else np.zeros(1)
        if np.isnan(numbers).any():
            return ANY
        least, largest = float(numbers.min()), float(numbers.max())
        is_small = max(abs(least), abs(largest)) <= self.max_size
        return NumberRange(least, largest, bool((numbers == np.floor(numbers)).all()), None if is_small else False)

    def limits(self, tensor: Tensor) -> NumberRange | None:
        """The range of an integer or boolean dtype; None for other dtypes."""
        dtype = self._dtype(tensor.scope, tensor.name)
        if dtype is None or dtype not in INTEGERS_AND_BOOL:
            return None
        held = None if dtype == TensorProto.BOOL else np.iinfo(dtype_of(dtype))
        return NumberRange(0.0, 1.0, True) if held is None else NumberRange(float(held.min), float(held.max), True)

    def join(self, one: NumberRange, other: NumberRange) -> NumberRange:
        return _joined((one, other))

    def equation(self, tensor: Tensor, fact: Callable[[Tensor], NumberRange]) -> NumberRange:
        found, limits = self._constant(tensor), self.limits(tensor)
        if found is None:
            found = self._not_constant(tensor, fact)
        if limits is None or found == NONE:
            return found
        is_within = limits.least <= found.least and found.largest <= limits.largest  # otherwise it may wrap around
        return (found if is_within else limits)._replace(is_integral=True, of_sizes=found.of_sizes)

    def _constant(self, tensor: Tensor) -> NumberRange | None:
        """The range of a constant; None for other tensors, and for weights, which are not read for this."""
        scope, name, _ = tensor
        stored = scope.initializers.get(name)
        if stored is not None and stored.data_type != TensorProto.INT64 and prod(stored.dims) > SMALL:
            return None
        constants = self.index.constants
        try:
            array = constants.array(scope, name) if constants.is_constant(scope, name) else None
        except ModelFileError:  # reported when it is written
            return None
        return None if array is None or array.dtype.kind not in "iubf" else self.of_constant(array)

    def _not_constant(self, tensor: Tensor, fact: Callable[[Tensor], NumberRange]) -> NumberRange:
        scope, name, _ = tensor
        node, owner = scope.producers.get(name), scope.owner
        origins = list(self.edges.origins(tensor))
        if node is None and owner is not None and traits_of(owner.op).control.trip_counts and name in scope.inputs:
            if name == scope.input_names[0]:
                return NumberRange(0.0, self.max_trips, is_integral=True, of_sizes=True)
            return self._state(tensor, origins, fact)
        if origins:
            return _joined(map(fact, origins))
        if node is None:
            return self.of_input(name) if scope is self.index.main and name in scope.inputs else ANY
        return self._computed(node, node.outputs.index(name), fact)

    def _state(self, tensor: Tensor, origins: Sequence[Tensor], fact: Callable[[Tensor], NumberRange]) -> NumberRange:
        """The range of a state of a Loop: its initial value, and the sum of the increments of the iterations."""
        (body, name, _), (*first, last) = tensor, origins
        begin, node = _joined(map(fact, first)), body.producers.get(last.name)
        while node is not None and traits_of(node.op).data.identity_when == "always":
            last = self.edges.tensor(body, node.inputs[0])
            node = last.scope.producers.get(last.name)
        if last == tensor:
            return begin
        if last.scope is not body:  # the same number in each iteration
            return self.join(begin, fact(last))
        if node is None or traits_of(node.op).algebra.family != "sum" or name not in node.inputs:
            return ANY
        added = [fact(self.edges.tensor(body, given)) for given in node.inputs if given != name]
        step = sum(part.magnitude for part in added if part != NONE)
        if 0 < step < inf:
            step = 2.0 ** ceil(log2(step))  # keeps the number of values small if a step grows with the state
        growth = step * self.max_trips if step else 0.0
        is_integral = begin.is_integral and all(part.is_integral for part in added)
        return begin if begin == NONE else NumberRange(begin.least - growth, begin.largest + growth, is_integral)

    def _computed(self, node: Node, place: int, fact: Callable[[Tensor], NumberRange]) -> NumberRange:
        """The range of an output of a node."""
        traits, scope = traits_of(node.op), node.scope
        if traits.shape.returns_sizes:
            return NumberRange(0.0, self.max_size, is_integral=True, of_sizes=True)
        if traits.dtype.returns_indices or (traits.dtype.later_outputs_are_indices and place > 0):
            return NumberRange(0.0, self.max_rows, is_integral=True, of_sizes=True)
        given = [fact(self.edges.tensor(scope, name)) for name in _data(node, traits)]
        found = NONE if NONE in given else self._combined(node, traits, given, fact)
        if found == NONE:
            return NONE
        kinds = {part.of_sizes for part in given}
        if False in kinds or True not in kinds:
            return found._replace(of_sizes=False)
        least, largest = max(found.least, -self.max_of_sizes), min(found.largest, self.max_of_sizes)
        return NumberRange(least, largest, found.is_integral, of_sizes=True)

    def _combined(
        self, node: Node, traits: OpTraits, given: Sequence[NumberRange], fact: Callable[[Tensor], NumberRange]
    ) -> NumberRange:
        """The range of the results of an operator for operands in some ranges."""
        fill = node.attribute("value") if traits.shape.expands and not traits.data.carried else None
        if fill is not None:
            return self.of_constant(numpy_helper.to_array(fill.t))
        if not given:
            return ANY
        is_integral, first = all(part.is_integral for part in given), given[0]
        if traits.algebra.divisors and not traits.algebra.family:  # a remainder
            most = given[-1].magnitude if first.least < 0 else min(part.magnitude for part in given)
            return around_zero(most, is_integral=is_integral)
        if traits.algebra.family == "product":
            return self._quotient(node, first) if traits.algebra.divisors else _product(given, is_integral=is_integral)
        if traits.algebra.family == "sum":
            signed = zip(given, traits.algebra.signs, strict=True)
            terms = [_negated(part) if sign < 0 else part for part, sign in signed]
            return NumberRange(sum(term.least for term in terms), sum(term.largest for term in terms), is_integral)
        if traits.shape.expands and traits.operands.offsets and not traits.data.carried:  # numbers between two bounds
            return _joined(given[:2])._replace(is_integral=is_integral)
        if traits.numerics.accumulates:
            most = max(part.magnitude for part in given)
            return around_zero(most * self.max_size if most else 0.0)
        if traits.numerics.rounding_scale_slot == 0:
            return NumberRange(_outwards(floor, first.least), _outwards(ceil, first.largest), is_integral=True)
        if 0 not in CLIP_BOUNDS.get(node.op, (0,)):
            return self._clipped(node, first, fact)
        if traits.dtype.is_cast:
            dtypes = {self._dtype(node.scope, name) for name in (node.inputs[0], node.outputs[0])}
            return ANY if dtypes & HALVES and first.magnitude > _EXACT_HALVES else first
        if traits.data.copies_elements:
            return _joined(given)
        if traits.data.carried:
            return _joined((*given, NumberRange(0.0, 0.0)))
        if traits.dtype.later_outputs_are_indices or (traits.shape.same_type_as_input and node.op not in EXPONENTIALS):
            return around_zero(max(first.magnitude, self.tame))
        return ANY

    def _clipped(self, node: Node, x: NumberRange, fact: Callable[[Tensor], NumberRange]) -> NumberRange:
        """The range of numbers clipped to two bounds."""
        ends = dict(enumerate(node.inputs[1:]))
        low, high = (NumberRange(end, end, is_integral=True) for end in (-inf, inf))
        low = fact(self.edges.tensor(node.scope, ends[0])) if ends.get(0) else low
        high = fact(self.edges.tensor(node.scope, ends[1])) if ends.get(1) else high
        is_integral = x.is_integral and low.is_integral and high.is_integral and bool(ends)  # else attributes bound it
        least, largest = min(max(x.least, low.least), high.least), min(max(x.largest, low.largest), high.largest)
        return NONE if NONE in (low, high) else NumberRange(least, largest, is_integral)

    def _quotient(self, node: Node, dividend: NumberRange) -> NumberRange:
        """The range of a quotient: for integers that of the dividend; for floats it grows with a small divisor."""
        if self._dtype(node.scope, node.outputs[0]) in INTEGERS_AND_BOOL:
            return around_zero(dividend.magnitude, is_integral=True)
        constants, name = self.index.constants, node.inputs[-1]
        array = constants.array(node.scope, name) if constants.is_constant(node.scope, name) else None
        least = 0.0 if array is None or not array.size else float(np.abs(array.astype(np.float64)).min())
        return around_zero(dividend.magnitude / least) if least else ANY


def _data(node: Node, traits: OpTraits) -> list[str]:
    """The inputs that the values of the outputs come from."""
    slots = traits.data.carried or range(len(node.inputs))
    others = [*traits.control.selectors, *([] if traits.shape.axes is None else [traits.shape.axes.slot])]
    data = [name for slot, name in enumerate(node.inputs) if name and slot in slots and slot not in others]
    return data[:1] if traits.dtype.is_cast else data


def _joined(parts: Iterable[NumberRange]) -> NumberRange:
    """The range of numbers that are in any of some ranges."""
    known = [part for part in parts if part != NONE]
    if len(known) < 2:
        return known[0] if known else NONE
    kinds = {part.of_sizes for part in known}
    return NumberRange(
        min(part.least for part in known),
        max(part.largest for part in known),
        all(part.is_integral for part in known),
        False not in kinds and (True in kinds or None),
    )


def _product(given: Sequence[NumberRange], *, is_integral: bool) -> NumberRange:
    ends = [1.0]
    for part in given:
        ends = [one * other if one and other else 0.0 for one in ends for other in part[:2]]
    return NumberRange(min(ends), max(ends), is_integral)


def _negated(part: NumberRange) -> NumberRange:
    return part._replace(least=-part.largest, largest=-part.least)


def _outwards(rounding: Callable[[float], int], number: float) -> float:
    return float(rounding(number)) if abs(number) < inf else number
