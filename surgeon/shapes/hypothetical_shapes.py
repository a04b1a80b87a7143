"""Shapes of a model if some nodes read other tensors."""

from collections.abc import Iterable, Mapping

from surgeon.ir.index import Index
from surgeon.ir.original_model import OriginalModel, restore_file_state
from surgeon.ir.scope import Node, Scope
from surgeon.shapes.declared_types import DeclaredTypes
from surgeon.shapes.dtype_inference import Dtypes
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import PartialType, TensorType, ValueArray

Place = tuple[Scope, str]


class HypotheticalShapes(ShapeInference):
    """Types and values under suppositions: `suppose` lets a node read a tensor that does not exist yet.

    Only the declared dtype is trusted of a tensor that depends on a supposition.
    """

    def __init__(self, index: Index) -> None:
        self._supposed = _SupposedOrigin(index)
        super().__init__(self._supposed)
        self._doubted = self._stated = _Doubted(self.origin)
        self._dtypes = Dtypes(self._stated, lambda scope, name: self.facts(scope, name).dtype)
        self.index = index
        self._escapes: dict[Place, list[Node]] = {}  # nodes whose bodies return a tensor
        self._owned: dict[Node, list[Scope]] = {}
        for scope in index.scopes:
            if scope.owner is not None:
                self._owned.setdefault(scope.owner, []).append(scope)
                for value in scope.proto.output:
                    home = scope.defining_scope(value.name)
                    if home is not None:
                        self._escapes.setdefault((home, value.name), []).append(scope.owner)

    def suppose(self, node: Node, position: int, name: str, facts: TensorType, value: ValueArray | None) -> None:
        """Let a node read a new tensor of the main graph, of this type, at a position."""
        main = self._supposed.add(name)
        self._facts[main, name], self._values[main, name] = facts, value
        given = list(self.origin.inputs(node))
        given += [""] * (position + 1 - len(given))
        given[position] = name
        self._supposed.given[node] = tuple(given)
        self.doubt((node.scope, output) for output in node.outputs if output)

    def restore(self, node: Node) -> None:
        """Let a node read its original inputs."""
        if self._supposed.given.pop(node, None) is not None:
            self.doubt((node.scope, output) for output in node.outputs if output)

    def doubt(self, places: Iterable[Place]) -> set[Place]:
        """Forget tensors and all that depend on them; returns these."""
        waiting, seen = list(places), set[Place]()
        while waiting:
            scope, name = waiting.pop()
            if (scope, name) in seen or self._is_open(scope, name):
                continue
            seen.add((scope, name))
            for node in [*scope.readers(name), *self._escapes.get((scope, name), ())]:
                waiting += [(node.scope, output) for output in node.outputs if output]
                waiting += [(body, given) for body in self._owned.get(node, ()) for given in body.inputs]
                self._insides.pop(node, None)
        for scope, name in seen:
            home = self.origin.scope(scope)
            self._facts.pop((home, name), None)
            self._values.pop((home, name), None)
            self._doubted.doubted.add((id(home.proto), name))
        return seen

    def _is_open(self, scope: Scope, name: str) -> bool:
        """Whether a doubted tensor is still unknown, so that its consumers are, too."""
        home = self.origin.scope(scope)
        known = (home, name) in self._facts or (home, name) in self._values
        return not known and (id(home.proto), name) in self._doubted.doubted

    def is_constant(self, scope: Scope, name: str) -> bool:
        """Whether a tensor is constant and depends on no supposition."""
        home = self.origin.scope(scope).defining_scope(name)
        if home is None or (id(home.proto), name) in self._doubted.doubted:
            return False
        return self.origin.constants.is_constant(home, name)

    def _constant(self, home: Scope, name: str) -> ValueArray | None:
        return super()._constant(home, name) if self.is_constant(home, name) else None

    def _types_after_iteration(self, body: Scope, types: Mapping[str, PartialType]) -> dict[str, PartialType]:
        """As in `ShapeInference`; if the body declares a fixed shape, the shape stays as at first.

        An edit that makes a dim of the first shape dynamic also changes the body.
        """
        after = super()._types_after_iteration(body, types)
        stated = {name: self._doubted.stated(body, name).shape for name in types}
        fixed = {name for name, shape in stated.items() if shape and all(isinstance(size, int) for size in shape)}
        return {name: types[name] if name in fixed else after[name] for name in types}

    def function(self, call: Node) -> Scope | None:
        """The local function that a node calls."""
        return self._called(call)

    def bodies(self, node: Node) -> list[Scope]:
        """The bodies of a node in the index."""
        return self._owned.get(node, [])


class _Doubted(DeclaredTypes):
    """Declared types without the shapes of some tensors."""

    def __init__(self, origin: OriginalModel) -> None:
        super().__init__(origin)
        self.doubted: set[tuple[int, str]] = set()

    def stated(self, home: Scope, name: str) -> PartialType:
        """The declared type, doubted or not."""
        return super().draft(home, name)

    def draft(self, home: Scope, name: str) -> PartialType:
        """As `DeclaredTypes`; only the dtype for a doubted tensor."""
        found = super().draft(home, name)
        return PartialType(found.dtype, None) if (id(home.proto), name) in self.doubted else found


class _SupposedOrigin(OriginalModel):
    """An original model in which some nodes read other tensors."""

    def __init__(self, index: Index) -> None:
        super().__init__(index)
        self.given: dict[Node, tuple[str, ...]] = {}

    def add(self, name: str) -> Scope:
        """Add a tensor to the main graph."""
        main = self.scope(self.index.main)
        assert isinstance(main, _SupposedScope)
        main.supposed.add(name)
        return main

    def inputs(self, node: Node) -> tuple[str, ...]:
        """The inputs of a node under the suppositions."""
        return self.given[node] if node in self.given else super().inputs(node)

    def _copy(self, scope: Scope, parent: Scope | None) -> Scope:
        made = _SupposedScope.beside(scope, parent)
        made.supposed = set()
        return restore_file_state(scope, made)


class _SupposedScope(Scope):
    """A copy of a scope with tensors that have no producer yet."""

    supposed: set[str]

    def defines(self, name: str) -> bool:
        return super().defines(name) or name in self.supposed
