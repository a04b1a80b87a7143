"""Columns of tensors that are equal for all inputs, such as those of a rotary table with each column twice.

Each column has a number, and equal columns have equal numbers: by value in constants, else by origin.  Negated columns
have the numbers n and -n; columns of zeros have 0.  Ops that repeat, slice or move columns, or compute on each
separately, are followed.
"""

from collections.abc import Hashable, Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import BROADCASTING, RESHAPE_OPS, ops_with
from surgeon.shapes.op_rules.indexing import slice_parameters
from surgeon.shapes.op_rules.sequences import SequenceElement, piece
from surgeon.shapes.op_rules.values.symbolic_elements import MAX_ELEMENTS
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import FLOATS, NodeView, Shape, is_unknown, normalize_axis, run_rule

MAX_COLUMNS = 1 << 14
DEEPEST = 100  # maximum depth of nodes before a tensor
POINTWISE = BROADCASTING | ops_with("error_is_input_scaled") | {"Cos", "Sin"}
Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]  # columns of the last axes together


class EqualColumns:
    """The columns of tensors that an evaluator of shapes knows.  Its methods do not raise."""

    def __init__(self, shapes: ShapeInference) -> None:
        self.shapes = shapes
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[tuple[Scope, str], Numbers | None] = {}
        self._fixed = 0

    def renew(self, fixed: int) -> None:
        """Forget all columns if the number of known constants has changed."""
        if fixed != self._fixed:
            self._known.clear()
            self._fixed = fixed

    def of(self, scope: Scope, name: str, axes: int = 1) -> tuple[int, ...] | None:
        """A number for each column of a tensor, equal for equal columns; None if they are not numbered.

        Columns that are the negative of each other have opposite numbers.  axes: the number of last axes that the
        indices of a column cover, numbered together in order.
        """
        found, shape = self._lookup(scope, name, 0), self.shapes.facts(scope, name).shape or ()
        ends = _fixed(shape[-axes:])
        if ends is not None and found is not None and found.ndim < len(ends):
            found = self._of_constant(scope, name, (*shape[: -len(ends)], prod(ends)))
        if ends is None or found is None:
            return None
        return tuple(self._signed(column) for column in found.reshape(-1, prod(ends)).T.tolist())

    def supporting_tensors(self, scope: Scope, *names: str) -> list[str]:
        """The tensors, these and those before them, whose nodes make some columns known to be equal."""
        seen, found = dict.fromkeys(names), dict[str, None]()
        while new := [read for read in seen if read not in found and self._has_equal_columns(scope, read, seen)]:
            for read in new:
                found[read] = None
                seen |= dict.fromkeys(self._reads(scope, read))
                node = self._maker(scope, read)
                taken = None if node is None else piece(self.shapes.site(node))
                if taken is not None:  # the sequence itself has no columns
                    found |= dict.fromkeys(taken.node.node.outputs)
                    seen[taken.node.inputs[taken.position]] = None
        return [*found]

    def _has_equal_columns(self, scope: Scope, name: str, seen: Iterable[str]) -> bool:
        """Whether a node produces columns equal to others in it, or in another observed tensor that does not depend on
        it.
        """
        if self._maker(scope, name) is None:
            return False
        numbers, made = self._column_numbers(scope, name), {name}
        if len({*numbers}) < len(numbers):
            return True
        while more := {other for other in seen if other not in made and made.intersection(self._reads(scope, other))}:
            made |= more
        return any(
            not {*numbers}.isdisjoint(filter(None, self._column_numbers(scope, other))) for other in {*seen} - made
        )

    def _column_numbers(self, scope: Scope, name: str) -> list[int]:
        """The numbers of a tensor's last axes, without signs."""
        found = self._lookup(scope, name, 0)
        return [] if found is None else np.abs(found).reshape(-1).tolist()

    def _maker(self, scope: Scope, name: str) -> Node | None:
        home = self.shapes.origin.scope(scope).defining_scope(name)
        return None if home is None else home.producers.get(name)

    def _reads(self, scope: Scope, name: str) -> list[str]:
        """The inputs of the producer of a tensor."""
        node = self._maker(scope, name)
        return [] if node is None else [*filter(None, self.shapes.origin.inputs(node))]

    def _lookup(self, scope: Scope, name: str, depth: int) -> Numbers | None:
        home = self.shapes.origin.scope(scope).defining_scope(name)
        if home is None or depth > DEEPEST:
            return None
        if (home, name) not in self._known:
            self._known[home, name] = run_rule(self._find, home, name, depth)
        return self._known[home, name]

    def _find(self, home: Scope, name: str, depth: int) -> Numbers | None:
        shape = self.shapes.facts(home, name).shape
        if not shape or not isinstance(shape[-1], int) or not 0 < shape[-1] <= MAX_COLUMNS:
            return None
        node = home.producers.get(name)
        held = self._of_constant(home, name, shape)
        if held is not None:
            return held
        site = None if node is None or home.versions.get("", 1) < 7 else self.shapes.site(node)
        made = None if site is None else self._computed_columns(site, name, shape, depth + 1)
        if made is None or made.shape != tuple(shape[-made.ndim :]):
            return self._named(np.arange(1, shape[-1] + 1), home, name)
        return made

    def _of_constant(self, home: Scope, name: str, shape: Shape) -> Numbers | None:
        """The numbers of a constant, viewed in a shape; None for other tensors, and for constants that are too large.
        """
        sizes = _fixed(shape)
        array = self.shapes.origin.constant(home, name) if sizes is not None else None
        if sizes is None or array is None or not 0 < array.size <= MAX_ELEMENTS or array.size != prod(sizes):
            return None
        lines = [np.ascontiguousarray(line) for line in np.moveaxis(array.reshape(sizes), -1, 0)]
        return np.array([self._of_values(line) for line in lines])

    def _of_values(self, line: Numbers) -> int:
        """The number of a column of a constant."""
        if line.dtype.kind != "f":
            return self._number(line.dtype, line.shape, line.tobytes())
        known = line[line != 0]
        sign = -1 if known.size and known[0] < 0 else 1
        positive = (line if sign > 0 else -line) + line.dtype.type(0)  # removes the sign of zeros
        return sign * self._number(line.dtype, line.shape, positive.tobytes()) if known.size else 0

    def _named(self, made: Numbers, *what: Hashable) -> Numbers:
        """New numbers, for columns that are new, or that have other rows than their source.

        what: the tensor that has them, or the sizes of the layout of the same numbers in order.
        """
        own = [self._signed([number], *what) for number in made.reshape(-1).tolist()]
        return np.array(own).reshape(made.shape)

    def _number(self, *what: Hashable) -> int:
        return self._numbers.setdefault(what, len(self._numbers) + 1)

    def _signed(self, numbers: Sequence[int], *what: Hashable) -> int:
        """A number for the result of an op on several columns; it is the negative for their negatives."""
        first = next(filter(None, numbers), 0)
        sign = -1 if first < 0 else 1
        return sign * self._number(*what, *(sign * number for number in numbers)) if first else 0

    def _of_op(self, site: NodeView, said_too: Hashable, row: Sequence[int]) -> int:
        """A number for the result of an op on columns with these numbers."""
        op = site.node.op
        if op == "Neg":
            return -row[0]
        if op == "Concat" or (op == "Cast" and site.attribute("to") in FLOATS):
            return self._signed(row, op, said_too)
        if op in {"Mul", "Div"}:
            sign = prod(-1 if number < 0 else 1 for number in row)
            return sign * self._number(op, said_too, *map(abs, row))
        return self._number(op, said_too, *row)

    def _computed_columns(self, site: NodeView, name: str, shape: Shape, depth: int) -> Numbers | None:
        """The numbers of an op's output from those of its inputs; None if they are unknown."""
        op, home, rank = site.node.op, site.scope, len(shape)
        if op in POINTWISE:
            return self._pointwise(site, shape, depth)
        taken = piece(site)
        if taken is not None:
            return self._from_sequence(taken, site, name, depth)
        parts = [self._lookup(home, read, depth) for read in (site.inputs if op == "Concat" else site.inputs[:1])]
        given = [part for part in parts if part is not None]
        if len(given) < len(parts) or not given:
            return None
        own, behind = given[0], given[0].ndim
        if op == "Concat" and len({part.ndim for part in given}) == 1:
            axis = normalize_axis(site.attribute("axis", 0), rank) - rank
            return np.concatenate(given, axis) if axis >= -behind else self._column_by_column(site, given)
        made = _gathered(site, own) if op == "Gather" else self._cut(site, name, own)
        if op in RESHAPE_OPS:
            ends = (_fixed(shape[-count:]) for count in range(1, rank + 1))
            wanted = next((end for end in ends if end is not None and prod(end) == own.size), None)
            made = self._of_constant(home, site.inputs[0], shape) if wanted is None else own.reshape(wanted)
            made = self._regrouped(own, shape[-1]) if made is None else made
        elif op == "Expand":
            wanted = _fixed(shape[-behind:])
            made = None if wanted is None else self._repeated(site, shape, np.broadcast_to(own, wanted))
        elif op == "Tile":
            repeats = site.numbers(1)
            made = None if repeats is None else self._repeated(site, shape, np.tile(own, repeats[-behind:]))
        elif op == "Transpose":
            perm = site.attribute("perm") or list(reversed(range(rank)))
            made = own if perm[-behind:] == list(range(rank - behind, rank)) else None
        elif op == "GatherND":
            picked = (site.shape(1) or (None,))[-1]  # number of indexed axes, which are the first
            is_behind = isinstance(picked, int) and picked <= len(site.shape(0) or ()) - behind
            made = own if is_behind and not site.attribute("batch_dims", 0) else None
        if made is None:
            return None
        ahead = (site.shape(0) or ())[: -behind if op in RESHAPE_OPS else -max(behind, made.ndim)]
        is_moved = op in ("Transpose", "GatherND") or self._cuts_ahead(site, name, behind)
        rows = shape[: -made.ndim]
        if not is_moved and ahead == rows:
            return made
        if op in RESHAPE_OPS and not any(map(is_unknown, rows)):
            return self._named(made, "rows", rows)
        place = self.shapes.origin.constants.get(home, site.inputs[1]) if op == "Gather" else None
        if place is not None and self._cuts_ahead(site, name, behind):  # the same rows of columns that are the same
            return self._named(made, op, site.attribute("axis", 0), *place.content)
        return self._named(made, home, name)

    def _regrouped(self, own: Numbers, width: Any) -> Numbers | None:
        """Columns of rows that are joined or split into rows of another width; None if they do not divide evenly."""
        if not isinstance(width, int) or max(width, own.size) % min(width, own.size):
            return None
        rows = own.reshape(-1, min(width, own.size))
        if width < own.size:
            return np.array([self._signed(column, "rows") for column in rows.T.tolist()])
        places = range(width // own.size)
        return np.array([self._signed([number], "row", place) for place in places for number in rows[0].tolist()])

    def _repeated(self, site: NodeView, shape: Shape, made: Numbers) -> Numbers:
        """Columns of one row that becomes several: those of each."""
        given, before = site.shape(0) or (), -made.ndim - 1
        if len(given) < -before or len(given) != len(shape) or given[before] != 1:
            return made
        count = shape[before]
        return np.broadcast_to(made, (count, *made.shape)) if isinstance(count, int) else made

    def _from_sequence(self, taken: SequenceElement, site: NodeView, name: str, depth: int) -> Numbers | None:
        """An element of a sequence: an inserted tensor, or columns split from a followed tensor."""
        whole = taken.node.inputs[taken.position]
        own, given = self._lookup(taken.node.scope, whole, depth), taken.node.shape(taken.position)
        if own is None or given is None or taken.drops or taken.axis is None:
            return None if taken.drops else own
        axis = taken.axis - len(given)
        if axis < -own.ndim:
            return self._named(own, site.scope, name)
        if _fixed((taken.start, taken.end)) is None:
            return None
        return np.moveaxis(np.moveaxis(own, axis, 0)[taken.start : taken.end], 0, axis)

    def _bounds(self, site: NodeView, name: str) -> Any:
        """(start, end, axis from the end, step) for each axis that an op slices; None for an op that does not slice."""
        cut = slice_parameters(site) if site.node.op == "Slice" else None
        if site.node.op == "Split":
            axis, at = site.attribute("axis", 0), site.node.outputs.index(name)
            shapes = [self.shapes.facts(site.scope, part).shape for part in site.node.outputs[: at + 1]]
            widths = [shape[axis] for shape in shapes if shape]
            cut = ([sum(widths[:-1])], [sum(widths)], [axis], [1]) if len(widths) == at + 1 else None
        elif site.node.op == "Gather":  # of all, in any order
            cut = [None], [None], [site.attribute("axis", 0)], [1]
        if cut is None:
            return None
        rank = len(site.shape(0) or ())
        return [
            (start, end, normalize_axis(axis, rank) - rank, step) for start, end, axis, step in zip(*cut, strict=True)
        ]

    def _cut(self, site: NodeView, name: str, own: Numbers) -> Numbers | None:
        """The remaining columns after a slice, or the columns of its input."""
        bounds = self._bounds(site, name)
        for start, end, axis, step in bounds or ():
            if axis >= -own.ndim:
                if _fixed((start, end)) is None:
                    return None
                own = np.moveaxis(np.moveaxis(own, axis, 0)[start:end:step], 0, axis)
        return None if bounds is None else own

    def _cuts_ahead(self, site: NodeView, name: str, behind: int) -> bool:
        """Whether an op slices along an axis before the last ones, which may keep the number of rows, but select
        others.
        """
        return any(axis < -behind for _, _, axis, _ in self._bounds(site, name) or ())

    def _pointwise(self, site: NodeView, shape: Shape, depth: int) -> Numbers | None:
        """Each column separately, with the parts that are the same for all of them."""
        sides: list[Numbers] = []
        for place, read in enumerate(site.inputs):
            own = site.shape(place)
            if own is None or (own and own[-1] != 1):
                found = self._lookup(site.scope, read, depth)
                if found is None:
                    return None
                sides.append(found)
            else:
                value = self.shapes.origin.constants.get(site.scope, read)
                content = (site.scope, read) if value is None else value.content
                sides.append(np.array(self._number(*content)))
        return self._column_by_column(site, sides)

    def _column_by_column(self, site: NodeView, sides: Sequence[Numbers]) -> Numbers | None:
        """A number for the result of an op on each column, and on the parts that are the same for all of them."""
        if len({side.shape for side in sides if side.ndim}) != 1:
            return None
        said_too = tuple(item.SerializeToString() for item in site.node.proto.attribute)
        spread = np.broadcast_arrays(*sides)
        rows = zip(*(side.reshape(-1).tolist() for side in spread), strict=True)
        made = [self._of_op(site, said_too, row) for row in rows]
        return np.array(made).reshape(spread[0].shape)


def _gathered(site: NodeView, own: Numbers) -> Numbers | None:
    """Columns by their indices, as a Gather selects them; unchanged if it selects other rows."""
    rank, places, sizes = len(site.shape(0) or ()), site.numbers(1), site.shape(1)
    at = normalize_axis(site.attribute("axis", 0), rank) - rank + own.ndim
    if at < 0:
        return own
    size, wanted = own.shape[at], None if sizes is None else _fixed(sizes)
    if places is None or wanted is None or not all(-size <= place < size for place in places):
        return None
    made = np.take(own, np.array(places, np.int64).reshape(wanted), at)
    return made if made.ndim else None


def _fixed(sizes: Sequence[Any]) -> tuple[int, ...] | None:
    """Sizes, if all are numbers."""
    numbers = tuple(size for size in sizes if isinstance(size, int))
    return numbers if len(numbers) == len(sizes) else None
