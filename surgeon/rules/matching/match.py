"""A match: the nodes and captures that a pattern found at a site."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.result_base import ResultBase
from surgeon.rules.matching.captured_tensor import CapturedTensor
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import NamedValue, Pattern, Var
from surgeon.rules.matching.shape_uses import ShapeUse
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.shape_inference import ShapeInference

_RECORD = attrgetter("encoded")


@dataclass(eq=False, slots=True)
class Match(ResultBase):
    """One match of a pattern.

    `match["x"]` is the value of a capture: a tensor with its `dtype`, `shape` and `values`, a number, a list of
    tensors, or None.  Conditions and replacements read everything from this one object.

    Examples:
        >>> import surgeon
        >>> match = next(iter(surgeon.find("notebooks/models/tiny_distilbert.onnx", "gelu")))
        >>> match.root.label, [node.op for node in match.nodes], match["x"].name
        ('node_gelu', ['Div', 'Erf', 'Add', 'Mul', 'Mul'], 'linear_4')
    """

    index: Index
    """The model."""
    scope: Scope
    """The graph, body or function that contains it."""
    pattern: Pattern
    """The pattern that matched."""
    nodes: tuple[Node, ...]
    """Nodes that it replaces, in file order; empty if the outputs are initializers."""
    outputs: tuple[str, ...]
    """Tensors that it produces and others read; empty if nothing reads them."""
    bound: dict[str, Any]
    """Capture -> tensor name, 1-tuple of a number or list, `VariadicBinding` of tensor names for *rest, or None for an
    absent input."""
    kept: tuple[Node, ...] = ()
    """Nodes that it relies on and that stay."""
    inspected: bool = False
    """Whether more than the dtype and shape of a captured tensor was read."""
    asked_dtype: bool = False
    """Whether the dtype of a captured tensor was read."""
    asked_shape: bool = False
    """Whether the shape of a captured tensor was read."""
    asked_last: tuple[str, tuple[str, int]] | None = None
    """The last property that was read ("dtype", "shape", ...), and of which capture."""
    template: object = None
    """The cached result that it was found by, which equal sites share; None if it was searched for."""
    sizes: tuple[ShapeUse, ...] = ()
    """Readers of inner tensors that need only their sizes, which other tensors have too."""
    rule: str = ""
    """As `Found.rule`."""
    content: int = 0
    """As `Found.content`."""
    call: ShapeInference | None = None
    """Shapes in one call of the local function that contains it, while a condition is checked for that call."""

    @property
    def shapes(self) -> ShapeInference:
        """Inferred shapes: in one call of its function if `call` is set, else for all calls."""
        return shapes_of(self.index) if self.call is None else self.call

    @property
    def root(self) -> Node:
        """The node that produces the first output; a substitute if that is an initializer.

        The last node of a match without outputs.
        """
        if not self.outputs:
            return self.nodes[-1]
        return self.scope.producers.get(self.outputs[0]) or self.scope.stand_in(self.outputs[0])

    @property
    def is_original(self) -> bool:
        """Whether all nodes that it replaces are from the file."""
        return not any(map(_RECORD, self.nodes))

    @property
    def opset(self) -> int:
        """The version of ai.onnx in its scope; 0 if none is imported."""
        return self.scope.opset or 0

    def __getitem__(self, name: str) -> Any:
        """The value of a capture: a `CapturedTensor`, a number, a list of tensors, or None."""
        held = self.bound[name]
        if isinstance(held, str):
            return CapturedTensor(held, self, (name, 0))
        if isinstance(held, VariadicBinding):
            return [CapturedTensor(item, self, (name, position)) for position, item in enumerate(held)]
        return held[0] if isinstance(held, tuple) else held

    def require_claims(self) -> None:
        """Raise ConditionFailed if a constraint or axis layout of the pattern does not hold."""
        if self.pattern.captures_class is not None:
            self.pattern.captures_class(self).require_dims()
        for claim in self.pattern.claims:
            if claim.name in self.bound:
                others = [self[item.name] if isinstance(item, (NamedValue, Var)) else item for item in claim.others]
                claim.predicate(self[claim.name], *others)

    def rest_on(self, tensors: Iterable[str]) -> None:
        """Let the match rely on the producers of these tensors too; they stay."""
        makers = dict.fromkeys(self.scope.producers.get(name) for name in tensors)
        known = {*self.nodes, *self.kept}
        self.kept += tuple(node for node in makers if node is not None and node not in known)

    def bind(self, capture: str, tensor: str) -> tuple[str, int]:
        """Capture a tensor that the pattern does not have, which the replacement may read.  Returns its key."""
        self.bound[capture] = tensor
        return capture, 0

    def tensor(self, key: tuple[str, int]) -> str:
        """The name of a captured tensor.  key: the capture and, for *rest, the index in it."""
        held = self.bound[key[0]]
        return str(held if isinstance(held, str) else held[key[1]])

    def __repr__(self) -> str:
        return f"<Match of {self.pattern.name} with outputs {', '.join(self.outputs)}>"
