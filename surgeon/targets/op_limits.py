"""Limits of a target on ops that it reads, found from a node and its neighbours."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import onnx

from surgeon.errors import UsageError
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, qualified_name, split_op
from surgeon.ops.schemas import type_string
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import Shape


class NodeLimits:
    """The limits that a model's nodes break, each as a clause with the problem and a clause with the remedy."""

    def __init__(self, index: Index, shapes: ShapeInference, table: "Mapping[str, Limit]", whose: str = "") -> None:
        """table: functions of limits by op: "TopK", "acme::HardGelu".  whose: the target, for messages."""
        self.index, self.shapes, self.target_title = index, shapes, whose
        self._table = {qualified_name(*split_op(op)): limit for op, limit in table.items()}

    def __contains__(self, op: str) -> bool:
        """Whether an op has limits."""
        return op in self._table

    def of(
        self,
        node: Node,
        instead: Mapping[str, int] = MappingProxyType({}),
        makers: Mapping[str, Node] = MappingProxyType({}),
    ) -> Iterator[tuple[str, str]]:
        """The limits that a node breaks.

        instead: other dtypes of tensors that it reads, as `TensorProto.DataType`.  makers: by tensor, nodes that
        compute it and are not in the model.  Raises UsageError for a function of a target that raises or yields
        anything else.
        """
        limit = self._table.get(node.op)
        if limit is None:
            return
        try:
            found = list(limit(NodeFacts(self, node, instead, makers)))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise UsageError(
                f"The limit of {node.op} in the target {self.target_title} raised {why}. Fix the target."
            ) from error
        for item in found:
            is_pair = isinstance(item, (tuple, list)) and len(item) == 2
            if not is_pair or not all(isinstance(text, str) for text in item):
                raise UsageError(
                    f"The limit of {node.op} in the target {self.target_title} yielded {item!r}. Yield two texts: "
                    "the problem and the remedy."
                )
            reason, help_ = item
            yield reason, help_


class NodeFacts:
    """A node as a limit sees it; an unknown fact is None, and never counts against it.

    Attributes:
        limits: those of its model.
        node: the node itself.

    Examples:
        >>> def one_axis(facts):
        ...     if facts.rank(0) not in (None, 1):
        ...         yield "it takes one axis", "flatten its input before"
        >>> from surgeon import Target
        >>> Target("acme", "Acme", ("onnx",), ("onnx",), limits={"HardSwish": one_axis}).limits["HardSwish"] is one_axis
        True
    """

    def __init__(
        self,
        limits: NodeLimits,
        node: Node,
        instead: Mapping[str, int] = MappingProxyType({}),
        makers: Mapping[str, Node] = MappingProxyType({}),
    ) -> None:
        self.limits, self.node, self._instead, self._makers = limits, node, instead, makers

    def has(self, position: int) -> bool:
        """Whether the input is given."""
        return position < len(self.node.inputs) and bool(self.node.inputs[position])

    def makes(self, position: int) -> bool:
        """Whether the node has the output."""
        return position < len(self.node.outputs) and bool(self.node.outputs[position])

    def maker(self, position: int) -> "NodeFacts | None":
        """The node of the same graph that produces an input; None without one."""
        if not self.has(position):
            return None
        name, scope = self.node.inputs[position], self.node.scope
        node = self._makers.get(name) or scope.producers.get(name)
        return None if node is None else NodeFacts(self.limits, node, self._instead, self._makers)

    def shape(self, position: int) -> Shape | None:
        """The sizes of an input: numbers, and sizes that compare."""
        if not self.has(position) or self.node.scope.function is not None:
            return None
        return self.limits.shapes.facts(self.node.scope, self.node.inputs[position]).shape

    def rank(self, position: int) -> int | None:
        """The number of axes of an input."""
        shape = self.shape(position)
        return None if shape is None else len(shape)

    def dtype(self, position: int) -> str | None:
        """The dtype of an input as schemas have it: "float16"."""
        if not self.has(position) or self.node.scope.function is not None:
            return None
        name = self.node.inputs[position]
        dtype = self._instead.get(name) or self.limits.shapes.facts(self.node.scope, name).dtype
        return type_string(dtype)[7:-1] if dtype else None

    def attribute(self, name: str, default: Any) -> Any:
        """The value of an attribute, strings as text; the default if it refers to an attribute of a function."""
        found = self.node.attribute(name)
        if found is None or found.ref_attr_name:
            return default
        value = onnx.helper.get_attribute_value(found)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def fixed(self, position: int) -> bool:
        """Whether an input is known when the network is built, or not given at all."""
        if not self.has(position) or self.node.scope.function is not None:
            return True
        scope, name = self.node.scope, self.node.inputs[position]
        if scope.defining_scope(name) is None:  # of a node that a rule would write, with others
            return True
        return self.limits.index.constants.is_constant(scope, name) or self.limits.shapes.value(scope, name) is not None

    def constant(self, position: int) -> bool:
        """Whether an input is known to be a constant."""
        return self.has(position) and self.limits.index.constants.is_constant(
            self.node.scope, self.node.inputs[position]
        )

    def number(self, position: int) -> float | None:
        """The number of an input that is a constant of one element."""
        if not self.has(position):
            return None
        found = self.limits.index.constants.get(self.node.scope, self.node.inputs[position])
        return None if found is None else found.scalar

    def zeros(self, position: int) -> bool:
        """Whether a constant input holds only zeros; True if it is unknown."""
        found = self.limits.index.constants.get(self.node.scope, self.node.inputs[position])
        return found is None or not found.array.astype(float).any()


Limit = Callable[[NodeFacts], Iterable[tuple[str, str]]]
"""Yields the limits that a node breaks: a clause with the problem and a clause with the remedy, for each."""
