"""A tensor of the model as conditions and replacements see it: each of its properties is looked up when asked for."""

from typing import Any, Protocol

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from surgeon.errors import Refused
from surgeon.indexing.index import Index
from surgeon.indexing.scope import Scope
from surgeon.indexing.types import Dim
from surgeon.shapes.choices import Choice
from surgeon.shapes.indexed import elements_of, shapes_of
from surgeon.shapes.symbols import Size


class Asked(Protocol):
    """A match that is asked for its tensors, and notes what is asked; see `surgeon.matching.match.Match`."""

    index: Index
    scope: Scope
    inspected: bool
    asked_dtype: bool
    asked_last: tuple[str, str] | None


class Captured(gs.Variable):
    """A tensor of the model that a match bound.  dtype and shape are looked up when asked for.

    key: the name that the pattern gives it and, for *rest, the position in it.  The match notes what is asked: what a
    replacement saw decides which other matches its result serves.
    """

    def __init__(self, name: str, match: Asked, key: tuple[str, int]) -> None:
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
        self._match.asked_last = ("dtype", self._name)
        found = self._match.index.types.dtype(self._match.scope, self._name)
        return None if found is None else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(found))

    @dtype.setter
    def dtype(self, value: object) -> None:
        """gs sets a dtype when it makes a variable; the model knows better."""

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """The shape, symbols as strings, unknown dims None; None where the rank is unknown.

        Sizes that onnx's inference leaves open are those of `sizes`, which knows what a rewrite has made constant.
        """
        stated = self._match.index.types.shape(self._match.scope, self._name)
        found = stated if stated is not None and all(isinstance(size, int) for size in stated) else self.sizes
        self._ask("shape")
        if found is stated or found is None or len(found) != len(stated or found):
            return stated
        names = stated or (None,) * len(found)
        return tuple(size if isinstance(size, int) else name for size, name in zip(found, names, strict=True))

    @shape.setter
    def shape(self, value: object) -> None:
        """As for dtype."""

    @property
    def rank(self) -> int | None:
        """The number of dims, or None where it is unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def sizes(self) -> tuple[Size, ...] | None:
        """The shape as evaluated: equal sizes are equal whatever the free dims are; None where the rank is unknown."""
        self._ask("shape")
        return shapes_of(self._match.index).facts(self._match.scope, self._name).shape

    @property
    def elements(self) -> list[Size] | None:
        """The elements of a small tensor of integers, in order, as sizes; None where one of them is unknown."""
        self._ask("values")
        found = shapes_of(self._match.index).value(self._match.scope, self._name)
        return None if found is None else list(found.reshape(-1))

    @property
    def choice(self) -> Choice | None:
        """The two values that it holds, where an element's place alone says which, as in a mask; None elsewhere."""
        self._ask("values")
        return elements_of(self._match.index).choice(self._match.scope, self._name)

    def _ask(self, what: str) -> None:
        self._match.inspected = True
        self._match.asked_last = (what, self._name)

    @property
    def values(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The value of a constant, read from the file now.  Raises Refused for a tensor that is none."""
        self._ask("values")
        found = self._match.index.constants.array(self._match.scope, self._name)
        if found is None:
            raise Refused(f"{self._name!r} is not a constant")
        return found

    @property
    def is_constant(self) -> bool:
        """Whether the value is fixed in the file."""
        self._ask("constancy")
        return self._match.index.constants.is_constant(self._match.scope, self._name)
