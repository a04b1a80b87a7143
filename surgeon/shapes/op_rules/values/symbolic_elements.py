"""Symbolic elements of tensors of any size: affine indices and affine masks, computed on demand and cached.

They follow Range through the ops that exporters use for index grids and masks: arithmetic with sizes, comparisons,
conjunctions, and reshapes.
"""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, TypeAlias

import numpy as np
import onnx

from surgeon.ir.scope import Scope
from surgeon.ops.traits.trait_lookup import DATA_MOVEMENT, RESHAPE_OPS
from surgeon.shapes.algebra.size_expressions import product
from surgeon.shapes.op_rules.indexing import fills, slice_parameters
from surgeon.shapes.op_rules.values import affine_index as affine
from surgeon.shapes.op_rules.values import affine_mask
from surgeon.shapes.op_rules.values.affine_index import AffineIndex
from surgeon.shapes.op_rules.values.affine_mask import AffineMask
from surgeon.shapes.op_rules.values.integer_values import as_array
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import INT32, INT64, INTEGERS, NeedsOperands, NodeView, Shape, normalize_axis, run_rule

MAX_ELEMENTS = 1 << 24  # of a constant
Key: TypeAlias = tuple[bool, Scope, str]  # whether the mask is wanted, the scope that defines the tensor, its name
COMPARISONS = {
    "LessOrEqual": (0, 1, 0),
    "GreaterOrEqual": (1, 0, 0),
    "Less": (0, 1, 1),
    "Greater": (1, 0, 1),
    "Equal": (0, 1, 0),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Not": np.logical_not,
}
Move: TypeAlias = Callable[[AffineIndex], AffineIndex | None]


def element_move(site: NodeView, own: Shape, shape: Shape) -> Move | None:
    """How an op moves the elements of its first input; None if it does more than that."""
    if site.node.op in RESHAPE_OPS:
        return lambda found: affine.regrouped(found, own, shape)
    if site.node.op == "Expand":
        return affine.spreading(own, shape)
    if site.node.op == "Transpose":
        perm = site.attribute("perm") or list(reversed(range(len(own))))
        return lambda found: AffineIndex(found.offset, tuple(found.strides[axis] for axis in perm))
    cut = slice_parameters(site) if site.node.op == "Slice" else None
    return None if cut is None else lambda found: _sliced_index(found, cut, own, shape)


def _sliced_index(found: AffineIndex, cut: Any, own: Shape, shape: Shape) -> AffineIndex | None:
    """The index of a Slice of a tensor."""
    made: AffineIndex | None = found
    for start, _, axis, step in zip(*cut, strict=True):
        place = normalize_axis(axis, len(own))
        made = None if made is None else affine.sliced(made, own, own, axis=place, start=start, step=step)
    return None if made is None else affine.normal(made.offset, made.strides, shape)


def moved_mask(site: NodeView, choice: AffineMask, own: Shape, shape: Shape) -> AffineMask | None:
    """The mask after an op that moves, casts or drops elements of a mask."""
    op = site.node.op
    if op == "Identity":
        return choice
    if op == "Cast":
        wanted = onnx.helper.tensor_dtype_to_np_dtype(site.attribute("to"))
        with np.errstate(all="ignore"):
            return choice.mapped(lambda value: np.asarray(value).astype(wanted)[()])
    if op == "Trilu":
        return _half(site, choice, shape)
    if op == "CumSum":
        return choice if choice.is_uniform and choice.inside == 0 else None
    if op in DATA_MOVEMENT and choice.is_uniform:
        return choice
    move = element_move(site, own, shape)
    return None if move is None else affine_mask.moved(choice, move, shape)


def _half(site: NodeView, choice: AffineMask, shape: Shape) -> AffineMask | None:
    """Trilu of equal elements: they stay on one side of a diagonal, and become 0 on the other."""
    shift = site.sizes(1) if site.has(1) else [0]
    if not choice.is_uniform or not shift or len(shift) != 1 or len(shape) < 2:
        return None
    sign = -1 if site.attribute("upper", 1) else 1
    strides = (*[0] * (len(shape) - 2), sign, -sign)
    bound = affine.normal(shift[0] * sign, strides, shape)
    return affine_mask.chosen(choice.inside, np.zeros((), np.asarray(choice.inside).dtype)[()], (bound,), shape)


class SymbolicElements:
    """Affine indices and masks of tensors.  Its methods do not raise."""

    def __init__(self, shapes: ShapeInference) -> None:
        self.shapes = shapes
        self._known: dict[Key, Any] = {}
        self._is_solving = False

    def affine(self, scope: Scope, name: str) -> AffineIndex | None:
        """An integer tensor as an affine index, or None."""
        found: AffineIndex | None = self._lookup(False, scope, name)
        return found

    def choice(self, scope: Scope, name: str) -> AffineMask | None:
        """A tensor as an affine mask, or None."""
        found: AffineMask | None = self._lookup(True, scope, name)
        return found

    def columns(self, scope: Scope, name: str) -> list[AffineIndex] | None:
        """An integer tensor as one affine index per element of its last axis, or None.

        The indices of a GatherND are such columns, one per indexed axis.
        """
        home = self.shapes.origin.scope(scope).defining_scope(name)
        if home is None:
            return None
        array = self._constant(home, name)
        if array is not None and array.ndim and array.dtype.kind in "iu":
            found = [affine.of_array(array[..., place]) for place in range(array.shape[-1])]
        else:
            found = self._joined(home, name)
        columns = [column for column in found if column is not None]
        return columns if columns and len(columns) == len(found) else None

    def _joined(self, home: Scope, name: str) -> list[AffineIndex | None]:
        """The columns that a Concat joins, or the only one."""
        site, shape = self._site(home, name), self.shapes.facts(home, name).shape
        own = self.affine(home, name) if shape and shape[-1] == 1 else None
        if own is not None:
            return [AffineIndex(own.offset, own.strides[:-1])]
        if site is None or site.node.op != "Concat" or not shape:
            return []
        if normalize_axis(site.attribute("axis", 0), len(shape)) != len(shape) - 1:
            return []
        found: list[AffineIndex | None] = []
        for part in site.inputs:
            own, sizes = self.affine(home, part), self.shapes.facts(home, part).shape
            known = own is not None and sizes is not None and sizes[-1] == 1
            found.append(AffineIndex(own.offset, own.strides[:-1]) if known and own is not None else None)
        return found

    # Without recursion: a rule that lacks an operand runs again once that is known

    def _lookup(self, is_mask: bool, scope: Scope, name: str) -> Any:
        home = self.shapes.origin.scope(scope).defining_scope(name)
        if home is None:
            return None
        key = (is_mask, home, name)
        if key not in self._known:
            if self._is_solving:
                raise NeedsOperands(key)
            self._is_solving = True
            try:
                self._solve(key)
            finally:
                self._is_solving = False
        return self._known[key]

    def _solve(self, key: Key) -> None:
        waiting = {key: True}  # in order
        while waiting:
            key = next(reversed(waiting))
            try:
                self._known[key] = self._find(*key)
            except NeedsOperands as stopped:
                if stopped.tasks[0] in waiting:
                    self._known[stopped.tasks[0]] = None  # a cycle in an invalid graph
                else:
                    waiting[stopped.tasks[0]] = True
            else:
                del waiting[key]

    def _find(self, is_mask: bool, home: Scope, name: str) -> Any:
        shape = self.shapes.facts(home, name).shape
        if shape is None:
            return None
        if is_mask:
            return run_rule(self._find_mask, home, name, shape)
        found: AffineIndex | None = run_rule(self._find_affine, home, name, shape)
        dtype = self.shapes.facts(home, name).dtype
        is_held = found is None or dtype not in (INT32, INT64) or found.fits(dtype)
        return found if is_held else None

    def _site(self, home: Scope, name: str) -> NodeView | None:
        node = home.producers.get(name)
        if node is None or node.outputs[0] != name or home.versions.get("", 1) < 7:  # older ops broadcast differently
            return None
        return self.shapes.site(node)

    def _constant(self, home: Scope, name: str) -> "np.ndarray[Any, Any] | None":
        shape = self.shapes.facts(home, name).shape
        numbers = [size for size in shape or () if isinstance(size, int)]
        if shape is None or len(numbers) < len(shape) or prod(numbers) > MAX_ELEMENTS:
            return None
        return self.shapes.origin.constant(home, name)

    # Affine indices

    def _find_affine(self, home: Scope, name: str, shape: Shape) -> AffineIndex | None:
        dtype = self.shapes.facts(home, name).dtype
        if dtype not in INTEGERS:
            return None
        value = self.shapes.value(home, name)
        array = value if value is not None else self._constant(home, name)
        if array is not None:
            return affine.of_array(array)
        site = self._site(home, name)
        if site is None or dtype not in (INT32, INT64):
            return None
        if site.node.op in ("GatherND", "Gather"):
            return self._picked(site)
        if site.node.op == "Concat":
            return self._concatenated(site, shape)
        if site.node.op == "NonZero":
            filled = self.choice(home, site.inputs[0])
            is_full = filled is not None and filled.is_uniform and filled.inside != 0
            return AffineIndex(0, (0, 1)) if is_full and len(site.shape(0) or ()) == 1 else None
        inputs = [(self.affine(home, read), self.shapes.facts(home, read).shape) for read in site.inputs[:2]]
        op, (first, own) = site.node.op, inputs[0]
        if op == "Range":
            start, step = site.sizes(0), site.sizes(2)
            return affine.normal(start[0], [step[0]], shape) if start and step else None
        if op in ("Add", "Sub", "Mul"):
            pair = [affine.spread(found, size, shape) if found and size is not None else None for found, size in inputs]
            return None if pair[0] is None or pair[1] is None else _arithmetic(op, pair[0], pair[1])
        if first is None or own is None:
            return None
        if op in ("Identity", "Cast"):
            return first
        if op == "Neg":
            return first.times(-1)
        move = element_move(site, own, shape)
        return None if move is None else move(first)

    def _picked(self, site: NodeView) -> AffineIndex | None:
        """The result of a GatherND, or of a Gather from a flattened tensor, on an affine index."""
        home, (data, indices) = site.scope, site.inputs
        shape = site.shape(1)
        line = self._site(home, data) if site.node.op == "Gather" else None
        if line is not None and line.node.op in RESHAPE_OPS and not site.attribute("axis", 0):
            flat, data, lines = self.affine(home, indices), line.inputs[0], site.shape(0)
            own = self.shapes.facts(home, data).shape
            if flat is None or not lines or not own or shape is None or lines[0] != product(own):
                return None
            columns = affine.split_by_axis(flat, own)
            extents = [size for size in shape if size != 1]
            found = self.affine(home, data)
            if columns is None or found is None or extents != [size for size in own if size != 1]:
                return None
            made = affine.picked(found, columns)
            return AffineIndex(made.offset, (*made.strides, *[0] * (len(lines) - 1)))
        columns, found = self.columns(home, indices), self.affine(home, data)
        if site.node.op != "GatherND" or site.attribute("batch_dims", 0) or not columns or found is None or not shape:
            return None
        is_inside = all(column.is_at_least(0, shape[:-1]) for column in columns)
        return affine.picked(found, columns) if is_inside and len(columns) == len(found.strides) else None

    def _concatenated(self, site: NodeView, shape: Shape) -> AffineIndex | None:
        """The index of concatenated tensors."""
        parts = [(self.affine(site.scope, read), site.shape(place)) for place, read in enumerate(site.inputs)]
        known = [(found, sizes) for found, sizes in parts if found is not None and sizes is not None]
        return (
            affine.joined(known, normalize_axis(site.attribute("axis", 0), len(shape)))
            if len(known) == len(parts)
            else None
        )

    # Choices

    def _find_mask(self, home: Scope, name: str, shape: Shape) -> AffineMask | None:
        array = self._constant(home, name)
        if array is None:
            array = as_array(self.shapes.value(home, name), self.shapes.facts(home, name).dtype)
        if array is not None:
            return affine_mask.of_array(array)
        site = self._site(home, name)
        if site is None:
            return None
        op = site.node.op
        if op == "ConstantOfShape":
            return affine_mask.uniform(fills(site))
        if op in COMPARISONS:
            found = self._compared(site, shape)
            if found is not None:
                return found
        if op == "Where":
            return self._selected(site, shape)
        if op in FUNCTIONS:
            return self._function(site, shape)
        first, own = self.choice(home, site.inputs[0]), self.shapes.facts(home, site.inputs[0]).shape
        if first is None or own is None:
            return None
        return moved_mask(site, first, own, shape)

    def _compared(self, site: NodeView, shape: Shape) -> AffineMask | None:
        """a ≤ b for two affine indices is b − a ≥ 0."""
        low, high, apart = COMPARISONS[site.node.op]
        sides: list[AffineIndex] = []
        for place in (low, high):
            found, own = self.affine(site.scope, site.inputs[place]), site.shape(place)
            wide = None if found is None or own is None else affine.spread(found, own, shape)
            if wide is None:
                return None
            sides.append(wide)
        bound = sides[1].plus(sides[0], -1).plus_number(-apart)
        if site.node.op == "Equal":
            is_never = bound.is_at_least(1, shape) or bound.times(-1).is_at_least(1, shape)
            is_always = bound.is_constant and bound.offset == 0
            return affine_mask.uniform(np.bool_(is_always)) if is_always or is_never else None
        return affine_mask.chosen(np.True_, np.False_, (bound,), shape)

    def _function(self, site: NodeView, shape: Shape) -> AffineMask | None:
        """A function of the elements of one choice, or of two."""
        function, op = FUNCTIONS[site.node.op], site.node.op
        given = list(self._inputs(site))
        if len(given) < len(site.inputs):
            return None
        with np.errstate(all="ignore"):
            if len(given) == 1:
                return given[0][0].mapped(function)
            found = affine_mask.combined(function, given[0], given[1], shape)
        if found is not None or op not in ("And", "Or"):
            return found
        wide = [affine_mask.moved(choice, affine.spreading(own, shape), shape) for choice, own in given]
        return None if wide[0] is None or wide[1] is None else affine_mask.both(wide[0], wide[1], op == "And", shape)

    def _selected(self, site: NodeView, shape: Shape) -> AffineMask | None:
        """Where: between two values, or by a condition that is the same everywhere."""
        given = list(self._inputs(site))
        if len(given) < 3:
            return None
        (condition, own), (first, _), (second, _) = given
        if condition.is_uniform:
            choice, own = given[1] if condition.inside else given[2]
            return affine_mask.moved(choice, affine.spreading(own, shape), shape)
        if not (first.is_uniform and second.is_uniform):
            return None
        picked = condition.mapped(lambda truth: first.inside if truth else second.inside)
        return affine_mask.moved(picked, affine.spreading(own, shape), shape)

    def _inputs(self, site: NodeView) -> Iterator[tuple[AffineMask, Shape]]:
        """The masks that a node reads with their shapes, up to the first other tensor."""
        for read in site.inputs:
            choice, shape = self.choice(site.scope, read), self.shapes.facts(site.scope, read).shape
            if choice is None or shape is None:
                return
            yield choice, shape


def _arithmetic(op: str, a: AffineIndex, b: AffineIndex) -> AffineIndex | None:
    if op == "Mul":
        return a.times(b.offset) if b.is_constant else b.times(a.offset) if a.is_constant else None
    return a.plus(b, 1 if op == "Add" else -1)
