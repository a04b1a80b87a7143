"""The model as in its file, regardless of rewrites: the reference of a proof."""

from collections.abc import Hashable, Sequence
from functools import cached_property

from surgeon.file.model import Address
from surgeon.file.tensors.decoding import Array
from surgeon.ir.constants import Constants
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope

TensorAddress = tuple[Address, str]  # a tensor of the source: the scope that has it, and its name


class OriginalModel:
    """The scopes of the source, rebuilt from an index that may have been edited.

    Nodes are those of the index, dead or alive; redirected inputs are not seen here.  Scopes are copies: their tables
    of producers, initializers and inputs are those of the file, and they have no consumers.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self.model = index.model
        self._scopes: dict[int, Scope] = {}
        self.of_data: set[Hashable] = set()  # cache of region slicing: tensors that depend on data

    @cached_property
    def constants(self) -> Constants:
        """The constants of the source, by value; query it with scopes from `scope`."""
        return Constants(self.model, self.index.ir_version)

    def constant(self, home: Scope, name: str) -> Array | None:
        """The value of a constant of this scope of the source, of any size; None for other tensors."""
        return self.constants.array(home, name) if self.constants.is_constant(home, name) else None

    def bodies(self, node: Node) -> Sequence[Scope]:
        """The bodies of a node of the source, in file order; none for a new node."""
        return [self.scope(body) for body in self.index.bodies(node)]

    def scope(self, scope: Scope) -> Scope:
        """The source's state of a scope of the index; a scope from here is returned unchanged."""
        if id(scope) not in self._scopes:
            made = self._copy(scope, None if scope.parent is None else self.scope(scope.parent))
            self._scopes[id(scope)] = self._scopes[id(made)] = made
        return self._scopes[id(scope)]

    def _copy(self, scope: Scope, parent: Scope | None) -> Scope:
        """A copy without the traces of edits."""
        return restore_file_state(scope, Scope.beside(scope, parent))

    def producer(self, scope: Scope, name: str) -> tuple[Scope, Node] | None:
        """The scope and the producer of a tensor, seen from a scope; None if it has no producer."""
        home = self.scope(scope).defining_scope(name)
        node = home.producers.get(name) if home is not None else None
        return None if home is None or node is None else (home, node)

    def substitute(self, scope: Scope, name: str, taken: set[TensorAddress]) -> str:
        """The tensor that readers of a tensor were redirected to; the tensor itself if that is not in the file.

        It is an initializer with equal bytes, or a tensor that another site proves to be equal; assumptions of the
        latter kind are added to `taken`.
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
            ):  # it was removed, or a body has another of its name
                break
            home, found = source.defining_scope(now), now
        if found == name or home is None:
            return name
        taken.update(passed)
        return found

    @cached_property
    def shares(self) -> bool:
        """Whether any readers were redirected to another tensor of the file."""
        return any(scope._shared or scope._equal for scope in self.index.scopes)

    def inputs(self, node: Node) -> tuple[str, ...]:
        """The inputs of a node in the file; those of a new node as they are."""
        return tuple(node.proto.input) if node in node.scope.redirected else node.inputs


def restore_file_state(scope: Scope, made: Scope) -> Scope:
    """Give a new scope the nodes and tables that another has in the file."""
    made.nodes, made._shared, made._equal = scope.nodes, scope._shared, scope._equal
    made.equal_tensors = scope.equal_tensors
    made.stated = scope.stated
    made._producers.update([(name, node) for node in scope.nodes for name in node.outputs if name])
    return made
