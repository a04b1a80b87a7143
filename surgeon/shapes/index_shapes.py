"""Shapes of a model that is being rewritten, inferred on demand and cached with its index."""

from typing import TYPE_CHECKING

from surgeon.file.tensors.decoding import Array
from surgeon.ir.index import Index
from surgeon.ir.original_model import OriginalModel, restore_file_state
from surgeon.ir.scope import Scope
from surgeon.shapes.declared_types import DeclaredTypes
from surgeon.shapes.shape_inference import ShapeInference

if TYPE_CHECKING:
    from surgeon.shapes.op_rules.values.equal_columns import EqualColumns
    from surgeon.shapes.op_rules.values.symbolic_elements import SymbolicElements


def shapes_of(index: Index) -> ShapeInference:
    """Shapes of original tensors, and of those that rules inserted.

    They stay valid during rewriting: a tensor keeps its value under its name.
    """
    return index.cached_analysis(ShapeInference, lambda: ShapeInference(_EditedOrigin(index)))


class ShapesWithoutDimNames(ShapeInference):
    """Shapes in which equal dim names of two inputs need not mean equal sizes."""


def shapes_without_dim_names(index: Index) -> ShapeInference:
    """As `shapes_of` if dim names are reliable; else only fixed sizes of inputs are trusted."""
    origin = _EditedOrigin(index)
    if DeclaredTypes.of(origin).has_reliable_dim_names:
        return shapes_of(index)
    return index.cached_analysis(
        ShapesWithoutDimNames,
        lambda: ShapesWithoutDimNames(origin, stated=DeclaredTypes(origin, ignore_dim_names=True)),
    )


def elements_of(index: Index) -> "SymbolicElements":
    """Symbolic elements of the same tensors."""
    from surgeon.shapes.op_rules.values.symbolic_elements import SymbolicElements  # not at the top: few rules ask

    return index.cached_analysis(SymbolicElements, lambda: SymbolicElements(shapes_of(index)))


def columns_of(index: Index) -> "EqualColumns":
    """Equal columns of the same tensors; rules that compute constants add to the known ones."""
    from surgeon.shapes.op_rules.values.equal_columns import EqualColumns  # not at the top: few rules ask

    columns = index.cached_analysis(EqualColumns, lambda: EqualColumns(shapes_of(index)))
    columns.renew(sum(len(scope.fixed) for scope in index.scopes))
    return columns


class _EditedOrigin(OriginalModel):
    """The original model with the tensors that rules have inserted so far."""

    def constant(self, home: Scope, name: str) -> Array | None:
        """The original constant, or a value that a rule computed."""
        found = super().constant(home, name)
        return home.live.fixed.get(name) if found is None and isinstance(home, _EditedScope) else found

    def _copy(self, scope: Scope, parent: Scope | None) -> Scope:
        made = _EditedScope.beside(scope, parent)
        made.live = scope
        return restore_file_state(scope, made)


class _EditedScope(Scope):
    """A copy of an original scope, which copies inserted tensors from the live scope on demand."""

    live: Scope

    def defines(self, name: str) -> bool:
        return super().defines(name) or self._copy_if_produced(name)

    def _copy_if_produced(self, name: str) -> bool:
        node = self.live.producers.get(name)
        if node is not None:
            self._producers.update({output: node for output in node.outputs if output})
        elif name in self.live.initializers:
            self._initializers[name] = self.live.initializers[name]
        return node is not None or name in self.initializers
