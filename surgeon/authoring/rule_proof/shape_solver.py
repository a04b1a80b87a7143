"""Solves for shapes of captures that satisfy the size constraints of a pattern's ops."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count, cycle
from typing import Any, NamedTuple

import numpy as np
from onnx.defs import onnx_opset_version

from surgeon.authoring.rule_proof.instances import Shape
from surgeon.authoring.rule_proof.variants import PatternVariant
from surgeon.ir.scope import qualified_name
from surgeon.rules.matching.pattern import AnyOf, LiteralValue, NamedValue, NodeOutput, NodePattern, Pattern, Value, Var
from surgeon.shapes.algebra.size_expressions import Size, SizeError, evaluate, substitute, symbol, symbols
from surgeon.shapes.constraints.constraint_solver import SizeSolver
from surgeon.shapes.op_rules.rule_table import axis_labels
from surgeon.shapes.op_rules.size_constraints import SizeConstraint
from surgeon.shapes.tensor_types import UNKNOWN, NodeView, TensorType, require

Sizes = tuple[Size, ...]

LETTERS = "abcdef"
PARTS = (3, 4, 2)  # sizes of which others are sums or multiples


class SolvedShapes(NamedTuple):
    """Shapes and values that satisfy the ops of a pattern."""

    shapes: dict[str, Shape]
    """The shapes of captured tensors by name."""
    values: dict[str, list[int]]
    """The values of captured bounds of slices and splits by name."""


def fit(
    pattern: Pattern, variant: PatternVariant, ranks: Mapping[str, int], numbers: Mapping[str, int]
) -> SolvedShapes | None:
    """Shapes and values that satisfy the size constraints of the ops; None without constraints.

    ranks: of the tensors by name.  numbers: the sizes of the symbols.  Independent sizes become different symbols; a
    size that is a sum or a multiple of others is a number, and so are those.
    """
    reader = _ShapeReader(variant, ranks)
    for value in pattern.outputs:
        reader.shape(value)
    fitting = SizeSolver([*reader.constraints, *reader.whole()])
    try:
        shapes = {name: [substitute(size, fitting.solved) for size in reader.given[name]] for name in ranks}
    except (KeyError, SizeError):
        return None
    free = dict.fromkeys(name for shape in shapes.values() for size in shape for name in sorted(symbols(size)))
    if not fitting.solved or len(free) > len(LETTERS):
        return None
    letters = dict(zip(free, LETTERS, strict=False))
    plain: dict[Size, str] = {symbol(name): letter for name, letter in letters.items()}
    composed = [size for shape in shapes.values() for size in shape if size not in plain]
    bound = dict.fromkeys(name for size in composed for name in sorted(symbols(size)))
    sizes = {**{name: numbers[letter] for name, letter in letters.items()}, **dict(zip(bound, cycle(PARTS)))}

    def written(size: Size) -> int | str:
        return evaluate(size, sizes) if symbols(size) & bound.keys() else plain.get(size) or evaluate(size, sizes)

    found = {name: tuple(map(written, shape)) for name, shape in shapes.items()}

    def number(size: Size) -> int:
        known = substitute(size, fitting.solved)
        return evaluate(known, {**dict.fromkeys(symbols(known), PARTS[0]), **sizes})

    return SolvedShapes(found, reader.cuts(number))


class PatternView(NodeView):
    """An operation of a pattern as label rules see it.  shapes: of its inputs."""

    def __init__(self, operation: NodePattern, shapes: Sequence[Sizes | None]) -> None:
        self._operation, self._shapes = operation, shapes
        self.inputs = tuple("" if value is None else "given" for value in operation.inputs)

    @property
    def op(self) -> str:
        return qualified_name(self._operation.domain, self._operation.op)

    @property
    def outputs(self) -> int:
        return self._operation.outputs

    @cached_property
    def opset(self) -> int:
        return onnx_opset_version()

    def facts(self, position: int) -> TensorType:
        return TensorType(None, self._shapes[position]) if self.has(position) else UNKNOWN

    def made_shape(self) -> None:
        return None

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; raises CannotInfer for a captured one."""
        found = self._operation.attributes.get(name, default)
        require(not isinstance(found, Var))
        return found

    def numbers(self, position: int) -> list[int] | None:
        value = self._operation.inputs[position]
        return [int(number) for number in np.ravel(value.value)] if isinstance(value, LiteralValue) else None


class _ShapeReader:
    """Infers symbolic shapes of a pattern's tensors and collects the size constraints of its ops.

    given: the shapes of captured tensors by name.
    """

    def __init__(self, variant: PatternVariant, ranks: Mapping[str, int]) -> None:
        self.variant, self.constraints = variant, list[SizeConstraint]()
        self.given = {name: self._fresh(rank, name) for name, rank in ranks.items()}
        self._made: dict[int, Sequence[Sizes | None]] = {}
        self._numbers = count()
        self._slices: dict[
            int, tuple[Size, Size, list[NodePattern]]
        ] = {}  # by the id of the sliced value: its size, the size of a slice, the slices
        self._splits: list[tuple[Size, NodePattern]] = []

    def whole(self) -> Iterator[SizeConstraint]:
        """Soft constraints: the slices of a tensor cover its axis."""
        for size, part, operations in self._slices.values():
            if len(operations) > 1:
                yield SizeConstraint(size, len(operations) * part, is_soft=True)

    def cuts(self, number: Callable[[Size], int]) -> dict[str, list[int]]:
        """The captured bounds of consecutive slices, and the captured sizes of splits, by name."""
        found: dict[str, list[int]] = {}

        def let(value: Value | None, numbers: list[int]) -> None:
            if isinstance(value, Var) and value.kind == "list":
                found.setdefault(value.name, numbers)

        for _, part, operations in self._slices.values():
            size = number(part)
            if len(operations) == 1:  # a single slice may start and end anywhere
                continue
            for place, operation in enumerate(_in_order(operations)):
                for value, numbers in zip(
                    operation.inputs[1:], ([place * size], [(place + 1) * size], [-1], [1]), strict=False
                ):
                    let(value, numbers)
        for part, operation in self._splits:
            let(operation.inputs[1] if len(operation.inputs) > 1 else None, [number(part)] * operation.outputs)
        return found

    def shape(self, value: Value | None) -> Sizes | None:
        """The shape of a value; None if it is unknown."""
        if isinstance(value, NamedValue):
            return self.shape(value.value)
        if isinstance(value, AnyOf):
            return self.shape(value.forms[self.variant.forms.get(id(value), 0)])
        if isinstance(value, LiteralValue):
            return tuple(value.value.shape)
        if isinstance(value, Var):
            return () if value.kind == "scalar" else self.given.get(value.name)
        return None if value is None else self._outputs(value)[value.position]

    def _fresh(self, rank: int, stem: str) -> Sizes:
        return tuple(symbol(f"{stem}.{axis}") for axis in range(rank))

    def _outputs(self, value: NodeOutput) -> Sequence[Sizes | None]:
        operation = value.operation
        if id(operation) not in self._made:
            read = [self.shape(item) for item in operation.inputs]
            self._made[id(operation)] = self._of(operation, read)
        return self._made[id(operation)]

    def _of(self, operation: NodePattern, read: Sequence[Sizes | None]) -> Sequence[Sizes | None]:
        """The shapes of the outputs of an operation."""
        own = {"Split": self._split, "Slice": self._slice}.get(operation.op)
        if own is not None:
            return own(operation, read[0]) if read and read[0] else [None] * operation.outputs
        view = PatternView(operation, read)
        labels = axis_labels(view)
        if labels is None:
            return [None] * operation.outputs
        self.constraints += [SizeConstraint(*pair) for pair in labels.equal_sizes(view)]
        return [labels.output_shape(view), *[None] * (operation.outputs - 1)]

    def _split(self, operation: NodePattern, x: Sizes) -> Sequence[Sizes | None]:
        axis = operation.attributes.get("axis", 0)
        if not isinstance(axis, int):
            return [None] * operation.outputs
        place, part = axis % len(x), symbol(f"part.{next(self._numbers)}")
        self.constraints.append(SizeConstraint(x[place], operation.outputs * part))
        self._splits.append((part, operation))
        return [(*x[:place], part, *x[place + 1 :])] * operation.outputs

    def _slice(self, operation: NodePattern, x: Sizes) -> Sequence[Sizes | None]:
        """A slice of the last axis, as in most models; slices of one tensor have equal sizes."""
        part: Size = symbol(f"part.{next(self._numbers)}")
        _, part, cuts = self._slices.setdefault(id(operation.inputs[0]), (x[-1], part, []))
        cuts.append(operation)
        return [(*x[:-1], part)]


def _in_order(slices: Sequence[NodePattern]) -> list[NodePattern]:
    """Slices of one tensor in order: each starts at the end of the previous one."""
    ends = {id(one.inputs[2]) for one in slices if isinstance(one.inputs[2], Var)}
    return sorted(slices, key=lambda one: id(one.inputs[1]) in ends)
