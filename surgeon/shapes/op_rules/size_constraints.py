"""Relations between input sizes that nodes require: equal ones to broadcast, large enough ones for indices.

They come from inferred shapes.  A Reshape requires equally many elements; that it keeps leading axes is a guess.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.op_traits import AttentionInputs, IndexedTable
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Size, exact_quotient, is_total, product, size_max, symbol, symbols
from surgeon.shapes.op_rules.rule_table import axis_labels
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import run_rule

Shape = Sequence[Size]

MAX_DEPTH = 24  # nodes between a bound and the op that indexes


@dataclass(frozen=True, slots=True)
class SizeConstraint:
    """A relation between two sizes that a node requires."""

    one: Size
    """A size."""
    other: Size
    """Another size."""
    at_least: bool = False
    """`one` must be at least `other`; else both must be equal."""
    is_soft: bool = False
    """The sizes are usually equal, but need not be."""


def size_constraints(shapes: ShapeInference, nodes: Iterable[Node]) -> Iterator[SizeConstraint]:
    """The constraints of some nodes."""
    for node in nodes:
        yield from run_rule(list, _Reader(shapes, node).constraints()) or ()


def max_index_counts(shapes: ShapeInference, nodes: Iterable[Node]) -> dict[str, int]:
    """The fewest rows of the tables that are indexed, by the dynamic dim that counts the indices (position tables)."""
    found: dict[str, int] = {}
    for node in nodes:
        for rows, indices in _Reader(shapes, node).tables():
            for size in indices:
                for name in () if isinstance(size, int) else symbols(size):
                    if size == symbol(name):
                        found[name] = min(rows, found.get(name, rows))
    return found


class _Reader:
    """One node, with the shapes and bounds of its inputs."""

    def __init__(self, shapes: ShapeInference, node: Node) -> None:
        self.inferred, self.origin = shapes, shapes.origin
        self.node, self.known = node, traits_of(node.op)
        self.inputs = self.origin.inputs(node)
        self.view = shapes.site(node)

    def constraints(self) -> Iterator[SizeConstraint]:
        """All constraints of the node, as far as the shapes of its inputs are known."""
        readers: dict[str, Callable[[], Iterator[SizeConstraint]]] = {
            "RotaryEmbedding": self._rotary,
            "com.microsoft::RotaryEmbedding": self._rotary,
            "Concat": self._concat,
            "Expand": self._expand,
            "Reshape": self._reshape,
        }
        labels = axis_labels(self.view)
        yield from () if labels is None else (SizeConstraint(*pair) for pair in labels.equal_sizes(self.view))
        if self.known.products.attention_inputs is not None:
            yield from self._attention(self.known.products.attention_inputs)
            if self.known.operands.key_counts is not None:
                yield from self._steps(self.known.products.attention_inputs.past_key, self.known.operands.key_counts[1])
        yield from self._channels()
        for lookup in self.known.indexing.lookups:
            yield from self._by_tuples(lookup) if lookup.by_tuples else self._along_axis(lookup)
        yield from readers.get(self.node.op, lambda: iter(()))()

    def tables(self) -> Iterator[tuple[int, Shape]]:
        """The row counts of tables that the node indexes, if fixed, and the shapes of the indices."""
        table, indices = self._at(0), self._at(1)
        if self.node.op == "Gather" and table and indices:
            rows = table[self.view.attribute("axis", 0) % len(table)]
            if isinstance(rows, int):
                yield rows, indices

    def _shape(self, scope: Scope, name: str) -> Shape | None:
        return self.inferred.facts(self.origin.scope(scope), name).shape if name else None

    def _at(self, place: int) -> Shape | None:
        return self.view.shape(place)

    def _channels(self) -> Iterator[SizeConstraint]:
        """As many channels as the kernels read."""
        x = self._at(0)
        if not x:
            return
        kernels = self._at(1) if self.known.products.weight_slot == 1 else None
        if kernels and len(x) == len(kernels) > 2:
            read = {"conv": kernels[1] * self.view.attribute("group", 1), "conv_transpose": kernels[0]}
            if self.known.products.kind in read:
                yield SizeConstraint(x[1], read[self.known.products.kind])

    def _expand(self) -> Iterator[SizeConstraint]:
        yield from broadcast_constraints([self._at(0), self._target()])

    def _reshape(self) -> Iterator[SizeConstraint]:
        yield from self._elements()
        for size, wanted in zip(self._at(0) or (), self._target(), strict=False):
            if size == wanted or wanted == 0:
                continue
            if isinstance(size, int) or isinstance(wanted, int):
                return
            yield SizeConstraint(size, wanted, is_soft=True)

    def _elements(self) -> Iterator[SizeConstraint]:
        """Equally many elements, without sizes that occur in both shapes."""
        shape, target = self._at(0), self._target()
        if not shape or not target or any(isinstance(size, int) and size < 0 for size in target):
            return
        one = product(shape)
        other = product(shape[place] if size == 0 and place < len(shape) else size for place, size in enumerate(target))
        for name in sorted(symbols(one) & symbols(other)):
            left, right = exact_quotient(one, symbol(name)), exact_quotient(other, symbol(name))
            if left is not None and right is not None:
                one, other = left, right
        if one != other:
            yield SizeConstraint(one, other)

    def _target(self) -> Shape:
        """The target shape in the second input, as far as it is known."""
        value = self.inferred.value(self.origin.scope(self.node.scope), self.inputs[1])
        return () if value is None else (*value.reshape(-1),)

    def _concat(self) -> Iterator[SizeConstraint]:
        """The sizes add up to the total, if the output is named so."""
        shapes = [self._at(place) for place in range(len(self.inputs))]
        made = self.view.made_shape()
        if made and all(shapes):
            axis = self.view.attribute("axis", 0) % len(made)
            total: Size = 0
            for shape in shapes:
                total = total + (shape or ())[axis]
            if any(map(is_total, symbols(made[axis]))):
                yield SizeConstraint(made[axis], total)

    def _attention(self, inputs: AttentionInputs) -> Iterator[SizeConstraint]:
        """Queries, keys and values of one batch; as many values as keys; a mask or bias over both."""
        query, key, value = self._at(0), self._at(inputs.key), self._at(inputs.value)
        if not query or not key or not value or not len(key) == len(value) in (3, 4):
            return
        yield from (
            SizeConstraint(query[0], key[0]),
            SizeConstraint(key[0], value[0]),
            SizeConstraint(key[-2], value[-2]),
        )
        past = None if inputs.past_key is None else self._at(inputs.past_key)
        mask = self._at(self.known.operands.logits[0]) if self.known.operands.logits else None
        if len(query) == len(key) == 4:
            yield SizeConstraint(query[3], key[3])
        total = key[-2] + past[2] if past and len(past) == 4 else key[-2]
        paddings = [self._at(slot) for slot in self.known.operands.masks if slot not in self.known.operands.logits]
        for padding in filter(None, paddings):
            if len(padding) == 2:
                yield from (SizeConstraint(padding[0], query[0]), SizeConstraint(padding[1], total))
        if mask:
            yield from broadcast_constraints([mask[-2:], [query[-2], total]])
            yield from broadcast_constraints([mask[-4:-3] if len(mask) > 3 else [], [query[0]]])

    def _steps(self, past_key: int | None, count: int) -> Iterator[SizeConstraint]:
        """One sequence, if there are several new rows after a past; the total number of keys is the sum of both."""
        query, past = self._at(0), None if past_key is None else self._at(past_key)
        if not query or not past or len(past) != 4:
            return
        if query[1] != 1:
            yield SizeConstraint(query[0], 1)
        total = self.inferred.value(self.origin.scope(self.node.scope), self.inputs[count])
        if total is not None and total.size == 1:
            yield SizeConstraint(total.reshape(-1)[0], query[1] + past[2])

    def _rotary(self) -> Iterator[SizeConstraint]:
        """Tables, or positions in them, for each batch and row of [batch, head, row, column] or [batch, row, column].
        """
        is_standard = self.node.op == "RotaryEmbedding"
        x, places = self._at(0), self._at(3 if is_standard else 1)
        for rows in (places,) if places or not is_standard else (self._at(1), self._at(2)):
            if x and rows and len(rows) > 1:
                yield from (SizeConstraint(rows[0], x[0]), SizeConstraint(rows[1], x[-2]))

    def _along_axis(self, lookup: IndexedTable) -> Iterator[SizeConstraint]:
        table = self._at(lookup.table)
        if table and lookup.indices < len(self.inputs):
            axis = self.view.attribute(lookup.axis_attribute, lookup.default_axis) % len(table)
            yield from self._reaches(table, [axis], self.inputs[lookup.indices])

    def _by_tuples(self, lookup: IndexedTable) -> Iterator[SizeConstraint]:
        """The last axis of the indices goes over axes of the table; parts concatenated along it have one each."""
        indices = self.inputs[lookup.indices]
        table, shape = self._at(lookup.table), self._at(lookup.indices)
        if not table or not shape or not isinstance(shape[-1], int):
            return
        first = self.view.attribute("batch_dims", 0)
        axes = range(first, min(first + shape[-1], len(table)))
        maker = self.origin.producer(self.node.scope, indices)
        parts = self.origin.inputs(maker[1]) if maker is not None and maker[1].op == "Concat" else ()
        if (
            maker is not None
            and len(parts) == len(axes)
            and all((self._shape(maker[0], name) or (0,))[-1] == 1 for name in parts)
        ):
            for axis, name in zip(axes, parts, strict=True):
                yield from self._reaches(table, [axis], name)
        else:
            yield from self._reaches(table, axes, indices)

    def _reaches(self, table: Shape, axes: Sequence[int], indices: str) -> Iterator[SizeConstraint]:
        bound = self._bound(self.node.scope, indices, MAX_DEPTH)
        if bound is not None:
            yield from (SizeConstraint(table[axis], bound, at_least=True) for axis in axes)

    def _bound(self, scope: Scope, name: str, depth: int) -> Size | None:
        """An exclusive upper bound of all integers of a tensor; None if unknown."""
        value = self.inferred.value(self.origin.scope(scope), name)
        if value is not None and value.size:
            return size_max(*value.reshape(-1)) + 1
        maker = self.origin.producer(scope, name)
        if maker is None:
            home = self.origin.scope(scope).defining_scope(name)
            is_fed = home is not None and home.parent is None and not home.is_function and name in home.inputs
            return 1 if is_fed else None  # the caller chooses inputs, which may be 0
        if not depth:
            return None
        home, node = maker
        reads = self.origin.inputs(node)
        if node.op == "Range":
            limit = self.inferred.value(self.origin.scope(home), reads[1])
            return None if limit is None else limit.reshape(-1)[0]
        known = traits_of(node.op)
        hands_on = (0,) if known.dtype.is_cast else known.data.copies_elements
        reads = tuple(read for slot, read in enumerate(reads) if not hands_on or slot in hands_on)
        found = [self._bound(home, read, depth - 1) for read in reads]
        if node.op == "Min":
            return next((bound for bound in found if bound is not None), None)
        if any(bound is None for bound in found):
            return None
        bounds = [bound for bound in found if bound is not None]
        if node.op == "Add":
            return bounds[0] + bounds[1] - 1
        if node.op == "Mul":
            return (bounds[0] - 1) * (bounds[1] - 1) + 1
        return size_max(*bounds) if hands_on and bounds else None


def broadcast_constraints(shapes: Sequence[Shape | None]) -> Iterator[SizeConstraint]:
    """Broadcast axes, aligned at their ends: all sizes along one are equal except for those that are 1."""
    known = [shape[::-1] for shape in shapes if shape]
    for axis in range(max(map(len, known), default=0)):
        sizes = [shape[axis] for shape in known if axis < len(shape) and shape[axis] != 1]
        yield from (SizeConstraint(one, other) for one, other in pairwise(sizes))
