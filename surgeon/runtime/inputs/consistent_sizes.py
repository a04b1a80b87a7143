"""Sizes of a whole model's free dimensions that fit one another, for a model that does not run at the usual ones.

A decoder with a past, say, as exporters write it: each cache has free sizes of its own, and so has the mask, though all
caches are of one length, the mask is as long as that and the new rows together, and both together have places in a
table of so many.
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
    """Sets of sizes to try in turn until one runs: the usual ones, such as are made to fit, and further ones."""
    yield from initial_sizes(model, plan, dims, lambda: True)
    yield from plan.fallback_sets(dims)


def initial_sizes(
    model: Model | Path | ModelProto, plan: InputGenerator, dims: _Sizes, is_refused: Callable[[], bool]
) -> Iterator[dict[str, int]]:
    """The usual sets of sizes, behind the first of them such as are made to fit.

    is_refused: whether the model did not run at the first, as it may once that was tried; else none is made to fit.
    """
    usual, *others = plan.size_sets(dims)
    yield usual
    if is_refused():
        yield from ConsistentSizes(model, dims).of([usual, *others])
    yield from others


class ConsistentSizes:
    """What the nodes of a model want of its free dimensions, read when it is first asked for.

    dims: sizes that the caller chose, by the keys of the dimensions.
    """

    def __init__(self, model: Model | Path | ModelProto, dims: _Sizes) -> None:
        self._model, self._dims = model, dims
        self._chosen = {name: size for name, size in dims.items() if symbols(parse_size(name)) == {name}}

    @cached_property
    def _read(self) -> tuple[dict[str, Size], SizeSolver] | None:
        """The free dimensions by their keys, and how they hang together; None for a model that is not well-formed."""
        try:
            with nullcontext(self._model) if isinstance(self._model, Model) else Model.open(self._model) as opened:
                free = dynamic_dims(list(required_inputs(opened.skeleton.graph).values()))
                fitting = SizeSolver(_with(self._chosen, _wishes(ShapeInference(OriginalModel(Index(opened))))))
        except (GraphError, ModelFileError, SizeError):  # what is wrong with it is told where it is run
            return None
        return {key: parse_size(key) for key in free}, fitting

    def of(self, sets: Sequence[_Sizes]) -> list[dict[str, int]]:
        """Sets of sizes made to fit; what fits already, and what cannot be made to, is left out."""
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


def _wishes(shapes: ShapeInference) -> Iterator[SizeConstraint]:
    """What all nodes want of sizes, those in bodies and in functions where they are called too."""
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
    """The same where some sizes are numbers."""
    for wish in dict.fromkeys(every):
        one, other = substitute(wish.one, chosen), substitute(wish.other, chosen)
        yield SizeConstraint(one, other, wish.at_least, wish.is_soft)
