"""The shapes of a model that is being rewritten, evaluated on demand and kept with its index."""

from surgeon.indexing.index import Index
from surgeon.indexing.origin import Origin, as_in_file
from surgeon.indexing.scope import Scope
from surgeon.shapes.elements import Elements
from surgeon.shapes.shapes import Shapes


def shapes_of(index: Index) -> Shapes:
    """Facts of the tensors of the source, and of those that rules made.

    They hold whatever is rewritten later: a tensor keeps its value under its name.
    """
    found = index.notes.get(Shapes)
    if not isinstance(found, Shapes):
        found = index.notes[Shapes] = Shapes(_Grown(index))
    return found


def elements_of(index: Index) -> Elements:
    """What is known of all elements of such tensors, likewise."""
    found = index.notes.get(Elements)
    if not isinstance(found, Elements):
        found = index.notes[Elements] = Elements(shapes_of(index))
    return found


class _Grown(Origin):
    """The source, and beside it every tensor that a rule has made by the time it is asked for."""

    def _copy(self, scope: Scope, parent: Scope | None) -> Scope:
        return as_in_file(scope, _GrownScope(scope, parent))


class _GrownScope(Scope):
    """A copy of a scope as the file has it, which takes over what was made in it since when that is looked for."""

    def __init__(self, live: Scope, parent: Scope | None) -> None:
        super().__init__(live.proto, live.address, live.versions, parent, live.owner, live.label)
        self._live = live

    def defines(self, name: str) -> bool:
        return super().defines(name) or self._takes_over(name)

    def _takes_over(self, name: str) -> bool:
        node = self._live.producers.get(name)
        if node is not None:
            self.producers.update({output: node for output in node.outputs if output})
        elif name in self._live.initializers:
            self.initializers[name] = self._live.initializers[name]
        return node is not None or name in self.initializers
