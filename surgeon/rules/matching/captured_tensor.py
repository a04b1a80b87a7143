"""A tensor of the model as conditions and replacements see it: each of its properties is looked up when asked for."""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from surgeon.errors import ConditionFailed
from surgeon.ir.index import Index
from surgeon.ir.scope import Scope
from surgeon.ops.builder.tensor_operators import Operators
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.index_shapes import columns_of, elements_of
from surgeon.shapes.op_rules.values.affine_index import AffineIndex
from surgeon.shapes.op_rules.values.affine_mask import AffineMask
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import Shape


class FactQueries(Protocol):
    """A match that is asked for its tensors, and notes what is asked; see `surgeon.rules.matching.matcher.Match`."""

    index: Index
    scope: Scope
    inspected: bool
    asked_dtype: bool
    asked_shape: bool
    asked_last: tuple[str, tuple[str, int]] | None

    @property
    def shapes(self) -> ShapeInference:
        """What is known of its tensors."""

    def rest_on(self, tensors: Iterable[str]) -> None:
        """Have it rest on the nodes that make these tensors too."""


class CapturedTensor(Operators, gs.Variable):
    """A tensor of the model that a match bound.  dtype and shape are looked up when asked for.

    key: the name that the pattern gives it and, for *rest, the position in it.  The match notes what is asked: what a
    replacement saw decides which other matches its result serves.
    """

    def __init__(self, name: str, match: FactQueries, key: tuple[str, int]) -> None:
        self._name, self._match, self.key = name, match, key
        super().__init__(name)

    @property
    def name(self) -> str:
        """The tensor's name in the model."""
        self._match.inspected = True
        return self._name

    @name.setter
    def name(self, value: object) -> None:
        """As for dtype."""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The element type, or None where it is unknown."""
        self._match.asked_dtype = True
        self._match.asked_last = ("dtype", self.key)
        found = self._match.shapes.dtype(self._match.scope, self._name)
        return None if found is None else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(found))

    @dtype.setter
    def dtype(self, value: object) -> None:
        """gs sets a dtype when it makes a variable; the model knows better."""

    @property
    def shape(self) -> Shape | None:
        """The shape: a number for each size that is fixed, and a `Size` to compare and compute with for any other.

        Sizes are equal that are equal whatever the free dims are; one that nothing tells is equal to itself alone.
        None where the rank is unknown.
        """
        self._match.asked_shape = True
        self._match.asked_last = ("shape", self.key)
        return self._match.shapes.shape(self._match.scope, self._name)

    @shape.setter
    def shape(self, value: object) -> None:
        """As for dtype."""

    @property
    def rank(self) -> int | None:
        """The number of dims, or None where it is unknown."""
        shape = self.shape
        return None if shape is None else len(shape)

    @property
    def elements(self) -> list[Size] | None:
        """The elements of a small tensor of integers, in order, as sizes; None where one of them is unknown."""
        self._ask("values")
        found = self._match.shapes.value(self._match.scope, self._name)
        return None if found is None else list(found.reshape(-1))

    @property
    def choice(self) -> AffineMask | None:
        """The two values that it holds, where an element's place alone says which, as in a mask; None elsewhere."""
        self._ask("values")
        return elements_of(self._match.index).choice(self._match.scope, self._name)

    @property
    def index(self) -> list[AffineIndex] | None:
        """Indices as ScatterND takes them: for each axis that they go over an affine index; None where one is none."""
        self._ask("values")
        return elements_of(self._match.index).columns(self._match.scope, self._name)

    @property
    def columns(self) -> tuple[int, ...] | None:
        """A number for each place of the last axis, equal where what is there surely is; None where it is free.

        One is minus another where what is there surely is, and 0 where it is zero.  The match rests on the nodes that
        make some of them so.
        """
        return self.cells(1)

    def cells(self, axes: int) -> tuple[int, ...] | None:
        """As `columns`, for the places of so many last axes together, in order: for a matrix at the end, row by row."""
        self._ask("values")
        known = columns_of(self._match.index)
        self._match.rest_on(known.rests_on(self._match.scope, self._name))
        return known.of(self._match.scope, self._name, axes)

    def columns_beside(self, other: "CapturedTensor") -> tuple[tuple[int, ...] | None, ...]:
        """The columns of this and of another tensor of its shape, to compare; the match rests on what makes them so."""
        for one in (self, other):
            one._ask("values")
        known, scope, names = columns_of(self._match.index), self._match.scope, (self._name, other._name)
        self._match.rest_on(known.rests_on(scope, *names))
        return tuple(known.of(scope, name) if self.shape == other.shape else None for name in names)

    @property
    def drawn_from(self) -> np.ndarray[Any, np.dtype[Any]] | None:
        """The constant of which all elements of it are: what is looked up, cut or moved, or it itself; None elsewhere.

        The match rests on the nodes that take them there.
        """
        self._ask("values")
        index, scope, name, taken = self._match.index, self._match.scope, self._name, list[str]()
        while not index.constants.is_constant(scope, name):
            home = scope.defining_scope(name)
            node = None if home is None else home.producers.get(name)
            if home is None or node is None or traits_of(node.op).data.copies_elements != (0,):
                return None
            taken.append(name)
            scope, name = home, node.inputs[0]
        self._match.rest_on(taken)
        return index.constants.array(scope, name)

    @property
    def is_of_products(self) -> bool:
        """Whether its elements are of products of matrices, perhaps times constants, and moved, beside zeros: no mask.

        The match rests on the nodes that make it so.
        """
        self._ask("values")
        index, scope = self._match.index, self._match.scope
        constants, waiting, taken = index.constants, [self._name], dict[str, bool]()  # whether it is a product itself
        while waiting:
            name = waiting.pop()
            everywhere = None if name in taken else elements_of(index).choice(scope, name)
            if name in taken or (everywhere is not None and not everywhere.bounds and everywhere.inside == 0):
                continue
            node = scope.producers.get(name)
            if node is None or constants.is_constant(scope, name):
                return False
            known = traits_of(node.op)
            taken[name] = known.products.kind in ("matmul", "einsum")
            among = known.data.copies_elements or known.data.nearly_copies_elements
            if known.algebra.family == "product":
                waiting += [read for read in node.inputs if not constants.is_constant(scope, read)]
            elif among:
                waiting += [read for place, read in enumerate(node.inputs) if place in among]
            elif not taken[name]:
                return False
        self._match.rest_on(taken)
        return any(taken.values())

    def _ask(self, what: str) -> None:
        self._match.inspected = True
        self._match.asked_last = (what, self.key)

    @property
    def values(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The value of a constant, read from the file now.  Raises ConditionFailed for a tensor that is none."""
        self._ask("values")
        found = self._match.index.constants.array(self._match.scope, self._name)
        if found is None:
            raise ConditionFailed(f"{self._name!r} is not a constant")
        return found

    @property
    def is_constant(self) -> bool:
        """Whether the value is fixed in the file."""
        self._ask("constancy")
        return self._match.index.constants.is_constant(self._match.scope, self._name)
