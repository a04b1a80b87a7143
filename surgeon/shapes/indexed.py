"""The shapes of a model that is being rewritten, evaluated on demand and kept with its index."""

from surgeon.file.model import Model
from surgeon.indexing.index import Index
from surgeon.indexing.origin import Origin, as_in_file
from surgeon.indexing.scope import Scope
from surgeon.indexing.types import Dim
from surgeon.shapes.elements import Elements
from surgeon.shapes.shapes import Shapes
from surgeon.shapes.symbols import Size, symbol, symbols


def index_of(model: Model) -> Index:
    """The index of a model, whose types are evaluated where the file does not state them.

    Raises GraphError when a tensor is made twice in one scope.
    """
    index = Index(model)

    def inferred(scope: Scope, name: str) -> tuple[int | None, tuple[Dim, ...] | None]:
        dtype, shape = shapes_of(index).facts(scope, name)
        return dtype, None if shape is None else tuple(map(_dim, shape))

    index.types.inferred = inferred
    return index


def _dim(size: Size) -> Dim:
    """A size as files can state it: one that is computed, or that nothing tells, has no name."""
    if isinstance(size, int):
        return size
    name, *others = symbols(size)
    return name if not others and not name.startswith("?") and size == symbol(name) else None


def shapes_of(index: Index) -> Shapes:
    """Facts of the tensors of the source, and of those that rules made.

    They hold whatever is rewritten later: a tensor keeps its value under its name.
    """
    return index.noted(Shapes, lambda: Shapes(_Grown(index)))


def elements_of(index: Index) -> Elements:
    """What is known of all elements of such tensors, likewise."""
    return index.noted(Elements, lambda: Elements(shapes_of(index)))


class _Grown(Origin):
    """The source, and beside it every tensor that a rule has made by the time it is asked for."""

    def _copy(self, scope: Scope, parent: Scope | None) -> Scope:
        made = _GrownScope.beside(scope, parent)
        made.live = scope
        return as_in_file(scope, made)


class _GrownScope(Scope):
    """A copy of a scope as the file has it, which takes over what was made in it since when that is looked for."""

    live: Scope

    def defines(self, name: str) -> bool:
        return super().defines(name) or self._takes_over(name)

    def _takes_over(self, name: str) -> bool:
        node = self.live.producers.get(name)
        if node is not None:
            self._producers.update({output: node for output in node.outputs if output})
        elif name in self.live.initializers:
            self._initializers[name] = self.live.initializers[name]
        return node is not None or name in self.initializers
