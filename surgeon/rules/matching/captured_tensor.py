"""A tensor of the model as conditions and replacements see it; each property is computed when it is read."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from surgeon.analysis.assumptions.assumed_facts import follows
from surgeon.analysis.assumptions.assumption import NO_PADDING, Assumption
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

ASSUMED = "assumption "
"""How a query for an assumption begins; the words follow."""


class FactQueries(Protocol):
    """The match that answers a tensor's queries and records them; see `surgeon.rules.matching.match.Match`."""

    index: Index
    scope: Scope
    inspected: bool
    asked_dtype: bool
    asked_shape: bool
    asked_last: tuple[str, tuple[str, int]] | None

    @property
    def shapes(self) -> ShapeInference:
        """Inferred shapes and types."""

    def rest_on(self, tensors: Iterable[str]) -> None:
        """Let the match rely on the producers of these tensors too."""

    def bind(self, capture: str, tensor: str) -> tuple[str, int]:
        """Capture a tensor that the pattern does not have, which the replacement may read.  Returns its key."""


class CapturedTensor(Operators, gs.Variable):
    """A tensor of the model that a match bound.  dtype and shape are inferred when they are read.

    key: the capture name and, for *rest, the index in it.  The match records which properties are read: matches that
    agree in them share one replacement.
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
        """The element type; None if unknown."""
        self._match.asked_dtype = True
        self._match.asked_last = ("dtype", self.key)
        found = self._match.shapes.dtype(self._match.scope, self._name)
        return None if found is None else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(found))

    @dtype.setter
    def dtype(self, value: object) -> None:
        """gs sets a dtype when it makes a variable; the model knows better."""

    @property
    def shape(self) -> Shape | None:
        """The shape: a number for each fixed dim, and a `Size` to compare and compute with for any other.

        Sizes are equal if they are equal for all values of the dynamic dims; an unknown size equals only itself.  None
        if the rank is unknown.
        """
        self._match.asked_shape = True
        self._match.asked_last = ("shape", self.key)
        return self._match.shapes.shape(self._match.scope, self._name)

    @shape.setter
    def shape(self, value: object) -> None:
        """As for dtype."""

    @property
    def rank(self) -> int | None:
        """The number of dims; None if unknown."""
        shape = self.shape
        return None if shape is None else len(shape)

    @property
    def elements(self) -> list[Size] | None:
        """The elements of a small integer tensor, in order, as sizes; None if one of them is unknown."""
        self._ask("values")
        found = self._match.shapes.value(self._match.scope, self._name)
        return None if found is None else list(found.reshape(-1))

    @property
    def choice(self) -> AffineMask | None:
        """Its two values, if only an element's position decides which it has, as in a mask; else None."""
        self._ask("values")
        return elements_of(self._match.index).choice(self._match.scope, self._name)

    @property
    def index(self) -> list[AffineIndex] | None:
        """Indices of ScatterND: an affine index for each axis that they cover; None if one is not affine."""
        self._ask("values")
        return elements_of(self._match.index).columns(self._match.scope, self._name)

    @property
    def columns(self) -> tuple[int, ...] | None:
        """A number for each position of the last axis, equal for positions with provably equal values; None for a
        dynamic axis.

        Negated values have negated numbers, and zeros have 0.  The match relies on the nodes that make some of them so.
        """
        return self.cells(1)

    def cells(self, axes: int) -> tuple[int, ...] | None:
        """`columns` for the positions of the last `axes` axes together, in row-major order."""
        self._ask("values")
        known = columns_of(self._match.index)
        self._match.rest_on(known.supporting_tensors(self._match.scope, self._name))
        return known.of(self._match.scope, self._name, axes)

    def columns_beside(self, other: "CapturedTensor") -> tuple[tuple[int, ...] | None, ...]:
        """The columns of this tensor and of another of its shape, for comparison."""
        for one in (self, other):
            one._ask("values")
        known, scope, names = columns_of(self._match.index), self._match.scope, (self._name, other._name)
        self._match.rest_on(known.supporting_tensors(scope, *names))
        return tuple(known.of(scope, name) if self.shape == other.shape else None for name in names)

    @property
    def drawn_from(self) -> np.ndarray[Any, np.dtype[Any]] | None:
        """The constant that all its elements are taken from by gathering, slicing or moving, or the tensor itself; else
        None.

        The match relies on the nodes in between.
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

    def is_cast_from(self, dtype: Any) -> bool:
        """Whether all its elements were cast from a dtype and only moved since, so that the dtype represents them.

        The match relies on the nodes in between.
        """
        self._ask("values")
        shapes, scope, name, taken = self._match.shapes, self._match.scope, self._name, list[str]()
        while (home := scope.defining_scope(name)) is not None and (node := home.producers.get(name)) is not None:
            taken.append(name)
            scope, name, traits = home, node.inputs[0] if node.inputs else "", traits_of(node.op)
            if traits.dtype.is_cast:
                self._match.rest_on(taken)
                return bool(shapes.dtype(scope, name) == onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
            if traits.data.copies_elements != (0,):
                break
        return False

    @property
    def is_of_products(self) -> bool:
        """Whether its elements are matrix products, perhaps scaled by constants and moved, or zeros: it is not a mask.

        The match relies on the nodes that make it so.
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

    def visible_keys(
        self, rows: Size, past: Size, shows: bool = True, others: "Sequence[CapturedTensor]" = ()
    ) -> "tuple[int | None, CapturedTensor | None]":
        """As a mask: how many keys it leaves to each of `rows` queries after `past` keys, without padding.

        shows: the value of a condition for scores that count.  others: masks that hide keys too.  Returns the most keys
        that a row sees, its own included, or None if it sees all up to its own; and the input with a one for each
        token, or None.  The match relies on the nodes of the masks.  Raises ConditionFailed if they hide more, or
        depend on more than sizes and an input that is assumed to have no padding.
        """
        from surgeon.analysis.decoder_graph import Decoder, decoder_of  # not at the top: few rules read masks
        from surgeon.rules.matching import visible_keys as keys

        self._ask("values")
        try:
            masks = [mask._name for mask in (self, *others)]
            found = keys.visible_keys(self._match.index, masks, rows, past, shows=shows)
        except keys.DependsOnValues as unknown:
            decoder = decoder_of(self._match.index)
            if isinstance(decoder, Decoder) and decoder.mask == unknown.name:
                key = self._match.bind(f"{self.key[0]} padding", unknown.name)
                self._match.asked_last = (f"{ASSUMED}{NO_PADDING}", key)
            raise
        self._match.rest_on(found.made)
        padding = None if found.padding is None else self._match.bind(f"{self.key[0]} padding", found.padding)
        return found.window, None if padding is None else CapturedTensor(str(found.padding), self._match, padding)

    def is_always(self, value: object, rows: Size, past: Size) -> bool:
        """Whether all its elements have one value if each sequence is without padding, as for `visible_keys`."""
        from surgeon.rules.matching.visible_keys import is_always  # as above

        self._ask("values")
        found = is_always(self._match.index, self._name, value=value, rows=rows, past=past)
        self._match.rest_on(found or ())
        return found is not None

    def holds(self, words: str) -> bool:
        """Whether its values provably obey words that users assume of inputs: "0..1", "finite", "right-padded".

        They do by the assumptions that the model carries, by its value, its dtype, or the range of its integers.
        Raises UsageError for other words.
        """
        self._match.inspected = True
        self._match.asked_last = (ASSUMED + words, self.key)
        return follows(self._match.index, self._match.scope, self._name, Assumption.parse(words))

    def _ask(self, what: str) -> None:
        self._match.inspected = True
        self._match.asked_last = (what, self.key)

    @property
    def values(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The value of a constant, read from the file now.  Raises ConditionFailed if it is not a constant."""
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
