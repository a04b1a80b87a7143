"""The model as its file has it, whatever has been rewritten since: what a proof compares with."""

from collections.abc import Hashable, Sequence
from functools import cached_property

from surgeon.file.model import Address
from surgeon.file.tensors.decoding import Array
from surgeon.ir.constants import Constants
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope

TensorAddress = tuple[Address, str]  # a tensor of the source: the scope that has it, and its name


class OriginalModel:
    """The scopes of the source, made anew from an index that may have been edited.

    Nodes are the index's own, dead or alive; what a rewrite let them read instead is not seen here.  Scopes are
    copies: their tables of producers, initializers and inputs are those of the file, and they know no readers.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self.model = index.model
        self._scopes: dict[int, Scope] = {}
        self.of_data: set[Hashable] = set()  # what cuts of regions found to follow from data, good until more is known

    @cached_property
    def constants(self) -> Constants:
        """The constants of the source, by value; ask with scopes from `scope`."""
        return Constants(self.model, self.index.ir_version)

    def constant(self, home: Scope, name: str) -> Array | None:
        """The value of a constant that is made in this scope of the source, of any size; None for any other tensor."""
        return self.constants.array(home, name) if self.constants.is_constant(home, name) else None

    @cached_property
    def _bodies(self) -> dict[Node, list[Scope]]:
        found: dict[Node, list[Scope]] = {}
        for scope in self.index.scopes:
            if scope.owner is not None:
                found.setdefault(scope.owner, []).append(self.scope(scope))
        return found

    def bodies(self, node: Node) -> Sequence[Scope]:
        """The bodies that a node of the source holds, in the order of the file; none for a new node."""
        return self._bodies.get(node, ())

    def scope(self, scope: Scope) -> Scope:
        """The source's state of a scope of the index; a scope from here is its own."""
        if id(scope) not in self._scopes:
            made = self._copy(scope, None if scope.parent is None else self.scope(scope.parent))
            self._scopes[id(scope)] = self._scopes[id(made)] = made
        return self._scopes[id(scope)]

    def _copy(self, scope: Scope, parent: Scope | None) -> Scope:
        """A copy without the traces of any edit."""
        return restore_file_state(scope, Scope.beside(scope, parent))

    def producer(self, scope: Scope, name: str) -> tuple[Scope, Node] | None:
        """The node that makes a tensor, seen from a scope, and the scope it stands in; None where no node does."""
        home = self.scope(scope).defining_scope(name)
        node = home.producers.get(name) if home is not None else None
        return None if home is None or node is None else (home, node)

    def substitute(self, scope: Scope, name: str, taken: set[TensorAddress]) -> str:
        """What readers of a tensor were given to read in its place; the name itself where that is nothing of the file.

        An initializer of the same bytes, or a tensor that another site proves to be equal; what was taken for equal by
        such a proof is noted in `taken`.
        """
        source = self.scope(scope)
        home, found = source.defining_scope(name), name
        passed: list[TensorAddress] = []
        while home is not None:
            now = home._shared.get(found)
            if now is None and (now := home.equal_tensors.get(found)) is not None:
                passed.append((home.address, found))
            if now is None or source.defining_scope(now) is not home.defining_scope(
                now
            ):  # it went, or a body has another of its name
                break
            home, found = source.defining_scope(now), now
        if found == name or home is None:
            return name
        taken.update(passed)
        return found

    @cached_property
    def shares(self) -> bool:
        """Whether readers of any tensor were given another of the file to read."""
        return any(scope._shared or scope._alike for scope in self.index.scopes)

    def inputs(self, node: Node) -> tuple[str, ...]:
        """What a node of the source reads in the file; a new node reads what it reads."""
        return tuple(node.proto.input) if node in node.scope.redirected else node.inputs


def restore_file_state(scope: Scope, made: Scope) -> Scope:
    """Give a new scope the nodes and tables that another has in the file."""
    made.nodes, made._shared, made._alike = scope.nodes, scope._shared, scope._alike
    made.equal_tensors = scope.equal_tensors
    made.stated = scope.stated
    made._producers.update([(name, node) for node in scope.nodes for name in node.outputs if name])
    return made
