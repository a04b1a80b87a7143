"""Consistent sizes of a whole model's dynamic dims, for a model that does not run at the usual sizes.

Example: in an exported decoder with a past, each cache and the mask have their own dynamic dims.  But all caches must
have the same length, the mask covers that length and the new rows, and the sum indexes a table of limited size.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from onnx import ModelProto

from surgeon.errors import GraphError, ModelFileError
from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Scope
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.shapes.algebra.size_expressions import Size, SizeError, evaluate, parse_size, substitute, symbols
from surgeon.shapes.constraints.constraint_solver import SizeSolver
from surgeon.shapes.constraints.input_dims import dynamic_dims, required_inputs, usual_size
from surgeon.shapes.op_rules.size_constraints import SizeConstraint, size_constraints
from surgeon.shapes.shape_inference import ShapeInference

_DEEPEST = 8  # functions that call functions
_Sizes: TypeAlias = Mapping[str, int]


def candidate_sizes(model: Model | Path | ModelProto, plan: InputGenerator, dims: _Sizes) -> Iterator[dict[str, int]]:
    """Sets of sizes to try in turn until one runs: the usual ones, consistent ones, and further ones."""
    yield from initial_sizes(model, plan, dims, lambda: True)
    yield from plan.fallback_sets(dims)


def initial_sizes(
    model: Model | Path | ModelProto, plan: InputGenerator, dims: _Sizes, is_refused: Callable[[], bool]
) -> Iterator[dict[str, int]]:
    """The usual sets of sizes, with consistent ones after the first.

    is_refused: whether the model failed at the first set; only then are consistent sizes computed.
    """
    usual, *others = plan.size_sets(dims)
    yield usual
    if is_refused():
        yield from ConsistentSizes(model, dims).of([usual, *others])
    yield from others


class ConsistentSizes:
    """The size constraints of a model's nodes on its dynamic dims, read at first use.

    dims: sizes that the caller chose, by dim.
    """

    def __init__(self, model: Model | Path | ModelProto, dims: _Sizes) -> None:
        self._model, self._dims = model, dims
        self._chosen = {name: size for name, size in dims.items() if symbols(parse_size(name)) == {name}}

    @cached_property
    def _read(self) -> tuple[dict[str, Size], SizeSolver] | None:
        """The dynamic dims by key, and the solver of their constraints; None for a model that is not well-formed."""
        try:
            with nullcontext(self._model) if isinstance(self._model, Model) else Model.open(self._model) as opened:
                free = dynamic_dims(list(required_inputs(opened.skeleton.graph).values()))
                fitting = SizeSolver(_with(self._chosen, _constraints(ShapeInference(OriginalModel(Index(opened))))))
        except (GraphError, ModelFileError, SizeError):  # a run of the model reports the error
            return None
        return {key: parse_size(key) for key in free}, fitting

    def derived(self) -> tuple[dict[str, int], list[str]]:
        """The sizes of dynamic dims that follow from the chosen ones, and the names that the other sizes depend on."""
        if self._read is None:
            return {}, []
        keys, fitting = self._read
        found = {key: substitute(substitute(size, fitting.solved), self._chosen) for key, size in keys.items()}
        names = dict.fromkeys(name for size in found.values() for name in sorted(symbols(size)))
        return {key: size for key, size in found.items() if isinstance(size, int) and size >= 0}, [*names]

    def contradicted(self, sizes: _Sizes) -> tuple[str, str, int] | None:
        """A dim whose size contradicts the others: its name, its formula and the value of that; None without one."""
        if self._read is None:
            return None
        keys, fitting = self._read
        known = {key: size for key, size in {**keys, **fitting.solved}.items() if symbols(size) <= sizes.keys()}
        wrong = ((key, str(size), value) for key, size in known.items()
                 if (value := evaluate(size, sizes)) != sizes.get(key, value))
        return next(wrong, None)

    def of(self, sets: Sequence[_Sizes]) -> list[dict[str, int]]:
        """Consistent versions of sets of sizes; none for a set that is consistent already or cannot become so."""
        if self._read is None:
            return []
        keys, fitting = self._read
        names = dict.fromkeys(name for size in keys.values() for name in sorted(symbols(size)))
        chosen = {name: size for name, size in self._chosen.items() if name in names}
        found: list[dict[str, int]] = []
        for sizes in sets:
            given = {name: sizes.get(name, usual_size(name)) for name in names}
            try:
                fitted = fitting.sizes(given, chosen)
                made = {**sizes, **{key: evaluate(size, fitted) for key, size in keys.items()}, **self._dims}
            except SizeError:
                continue
            if made not in (*sets, *found) and all(size > 0 or key in self._dims for key, size in made.items()):
                found.append(made)
        return found


def _constraints(shapes: ShapeInference) -> Iterator[SizeConstraint]:
    """The size constraints of all nodes, also in bodies and in called functions."""
    for scope in shapes.origin.index.scopes:
        if scope.function is None:
            yield from _of_scope(shapes, scope, _DEEPEST)


def _of_scope(shapes: ShapeInference, scope: Scope, depth: int) -> Iterator[SizeConstraint]:
    yield from size_constraints(shapes, scope.nodes)
    for node in scope.nodes:
        called = shapes.origin.index.called(node)
        inside = shapes.for_call(node) if called is not None and depth else None
        if called is not None and inside is not None:
            yield from _of_scope(inside, called, depth - 1)


def _with(chosen: _Sizes, every: Iterator[SizeConstraint]) -> Iterator[SizeConstraint]:
    """The constraints with the chosen sizes as numbers."""
    for constraint in dict.fromkeys(every):
        one, other = substitute(constraint.one, chosen), substitute(constraint.other, chosen)
        yield SizeConstraint(one, other, constraint.at_least, constraint.is_soft)
