"""A selection in a model: its nodes and the tensors at both boundaries."""

from collections.abc import Sequence
from dataclasses import dataclass

from surgeon.ir.scope import Node, Scope


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection in a view.

    Examples:
        >>> import surgeon
        >>> view = surgeon.view("notebooks/models/tiny_distilbert.onnx")
        >>> view.select(["node_Add_149", "node_Mul_151", "node_gelu"])
        >>> view.selection.tos
        ('gelu',)
    """

    nodes: tuple[str, ...] = ()
    """Names of the nodes, in the order of the file."""
    froms: tuple[str, ...] = ()
    """Tensors that they read, without constants: the first cut."""
    tos: tuple[str, ...] = ()
    """Tensors that other nodes read from them or that the graph returns: the second cut."""
    scope: str = ""
    """Body or function that contains them; empty for the main graph."""

    def __bool__(self) -> bool:
        return bool(self.nodes or self.tos)


def make_selection(
    scope: Scope, nodes: Sequence[Node], froms: Sequence[str] = (), tos: Sequence[str] = ()
) -> Selection:
    """The selection of some nodes of a scope.  froms, tos: its boundaries; those of the nodes by default."""
    names = tuple(node.label for node in nodes)
    if not (froms or tos):
        froms, tos = _inputs_of(scope, nodes), _outputs_of(scope, nodes)
    return Selection(names, tuple(froms), tuple(tos), scope.label)


def _inputs_of(scope: Scope, nodes: Sequence[Node]) -> list[str]:
    """Tensors that the nodes read but do not produce, without constants."""
    made = {name for node in nodes for name in node.outputs}
    read = dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in made)
    return [name for name in read if not is_constant(scope, name)]


def _outputs_of(scope: Scope, nodes: Sequence[Node]) -> list[str]:
    """Outputs of the nodes that other nodes read or that the scope returns."""
    inside = set(nodes)
    ends = set(scope.output_names)
    made = [name for node in nodes for name in node.outputs if name]
    return [name for name in made if name in ends or any(reader not in inside for reader in scope.readers(name))]


def is_constant(scope: Scope, name: str) -> bool:
    """Whether a tensor is a Constant, or an initializer that a caller may not override."""
    home = scope.defining_scope(name)
    if home is None:
        return False
    maker = home.producers.get(name)
    if maker is not None:
        return maker.op == "Constant"
    return (name in home.initializers or name in home.sparse) and name not in home.inputs
