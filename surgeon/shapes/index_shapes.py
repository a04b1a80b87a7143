"""The shapes of a model that is being rewritten, evaluated on demand and kept with its index."""

from surgeon.file.tensors.decoding import Array
from surgeon.ir.index import Index
from surgeon.ir.original_model import OriginalModel, restore_file_state
from surgeon.ir.scope import Scope
from surgeon.shapes.declared_types import DeclaredTypes
from surgeon.shapes.op_rules.values.equal_columns import EqualColumns
from surgeon.shapes.op_rules.values.symbolic_elements import SymbolicElements
from surgeon.shapes.shape_inference import ShapeInference


def shapes_of(index: Index) -> ShapeInference:
    """Facts of the tensors of the source, and of those that rules made.

    They hold whatever is rewritten later: a tensor keeps its value under its name.
    """
    return index.cached_analysis(ShapeInference, lambda: ShapeInference(_Grown(index)))


class ShapesApart(ShapeInference):
    """Shapes in which dimensions of two inputs are two, of whatever name: many give one name to all that they free."""


def shapes_without_dim_names(index: Index) -> ShapeInference:
    """The same as `shapes_of` where names of dimensions hold; else no shape is believed but inputs' fixed sizes."""
    origin = _Grown(index)
    if DeclaredTypes.of(origin).names_hold:
        return shapes_of(index)
    return index.cached_analysis(ShapesApart, lambda: ShapesApart(origin, stated=DeclaredTypes(origin, apart=True)))


def elements_of(index: Index) -> SymbolicElements:
    """What is known of all elements of such tensors, likewise."""
    return index.cached_analysis(SymbolicElements, lambda: SymbolicElements(shapes_of(index)))


def columns_of(index: Index) -> EqualColumns:
    """Which columns of such tensors are equal; more are known to be once rules have computed some."""
    columns = index.cached_analysis(EqualColumns, lambda: EqualColumns(shapes_of(index)))
    columns.renew(sum(len(scope.fixed) for scope in index.scopes))
    return columns


class _Grown(OriginalModel):
    """The source, and beside it every tensor that a rule has made by the time it is asked for."""

    def constant(self, home: Scope, name: str) -> Array | None:
        """As of the source, or what a rule has found it to be and written down."""
        found = super().constant(home, name)
        return home.live.fixed.get(name) if found is None and isinstance(home, _GrownScope) else found

    def _copy(self, scope: Scope, parent: Scope | None) -> Scope:
        made = _GrownScope.beside(scope, parent)
        made.live = scope
        return restore_file_state(scope, made)


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
