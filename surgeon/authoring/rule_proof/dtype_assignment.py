"""Assigns dtypes to the tensors of an instance: the preferred one if the schemas allow it, else another."""

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import TensorProto

from surgeon.ops.schemas import Schema, element_type, type_string
from surgeon.ops.traits.trait_lookup import CAST_OPS

# Dtypes of tensors that cannot have the preferred one, best first.
_INSTEAD = ("float", "int64", "int32", "bool", "uint8", "int8", "string", "float16", "double")
FLOAT_DTYPES = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)


class DtypeAssignment:
    """Groups tensors that share a type variable of some schema, and gives each group a dtype.

    dtype: the preferred TensorProto.DataType.
    """

    def __init__(self, dtype: int) -> None:
        self._dtype, self._wanted = dtype, type_string(dtype)
        self._above: dict[Any, Any] = {}
        self._allowed: dict[Any, frozenset[str]] = {}

    def add(
        self,
        known: Schema | None,
        op: str,
        attributes: Mapping[str, Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
    ) -> None:
        """Add one node.  known: its schema; None for an unknown op, whose tensors then share one dtype."""
        node = object()
        if known is None:
            for edge in (*inputs, *outputs):
                if edge is not None:
                    self._unite(edge, node)
            return
        sides = ((inputs, known.input_at), (outputs, known.output_at))
        for edges, formal_at in sides:
            for place, edge in enumerate(edges):
                formal = formal_at(place)
                if edge is None or formal is None:
                    continue
                self._narrow(edge, known.allowed(formal))
                if formal.type in known.types and formal.homogeneous:
                    self._unite(edge, (node, formal.type))
        target = attributes.get("to") if op in CAST_OPS else None
        if isinstance(target, int):
            self._narrow(outputs[0], frozenset({type_string(target)}))

    def of(self, edge: Any) -> int:
        """The TensorProto.DataType of a tensor."""
        allowed = self._allowed.get(self._root(edge), frozenset())
        if not allowed or self._wanted in allowed:
            return self._dtype
        tensors = [*(f"tensor({name})" for name in _INSTEAD), *sorted(allowed)]
        found = (element_type(name) for name in tensors if name in allowed)
        return next((dtype for dtype in found if dtype is not None), self._dtype)

    def _root(self, item: Any) -> Any:
        while item in self._above:
            item = self._above[item]
        return item

    def _unite(self, one: Any, other: Any) -> None:
        one, other = self._root(one), self._root(other)
        if one is other or one == other:
            return
        self._above[one] = other
        if one in self._allowed:
            self._narrow(other, self._allowed.pop(one))

    def _narrow(self, item: Any, allowed: frozenset[str]) -> None:
        root = self._root(item)
        known = self._allowed.get(root)
        self._allowed[root] = allowed if known is None else (known & allowed or known)
