"""Dtypes without shape inference: declared ones, and those that follow from type variables of nodes."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from surgeon.ir.scope import Node, Scope
from surgeon.ops.schemas import Schema, element_type, type_string
from surgeon.ops.schemas.attribute_values import DTYPES
from surgeon.ops.schemas.node_check import dtype_violations
from surgeon.ops.traits.trait_lookup import CAST_OPS, ONE_TYPE, traits_of
from surgeon.shapes.declared_types import DeclaredTypes
from surgeon.shapes.tensor_types import FLOATS, schema_of

TIED_LIMIT = 256  # maximum number of tensors visited for one dtype
UNKNOWN = frozenset({"unknown"})
FLOAT_STRINGS = frozenset(map(type_string, FLOATS))


class Dtypes:
    """Dtypes that need no shape inference.  evaluated: returns the dtype of a node without inputs."""

    def __init__(self, stated: DeclaredTypes, evaluated: Callable[[Scope, str], int | None]) -> None:
        self._stated, self._evaluated = stated, evaluated
        self._known: dict[tuple[Scope, str], int] = {}

    def find(self, scope: Scope, name: str) -> int | None:
        """The dtype, or None if it needs shape inference."""
        found = self._known.get((scope, name)) or self._from_stored_operand(scope, name)
        if not found:
            found = next((dtype for dtype, _ in self._of_one_type(scope, name) if dtype), None)
            if found:
                self._known[scope, name] = found
        return found

    def is_float(self, scope: Scope, name: str) -> bool | None:
        """Whether the tensor holds floats; the exact type may be unknown, as in a function.  None as for `find`."""
        for dtype, allowed in self._of_one_type(scope, name):
            if dtype is not None or allowed <= FLOAT_STRINGS:
                return dtype is None or dtype in FLOATS
        return None

    def _from_stored_operand(self, scope: Scope, name: str) -> int | None:
        """The dtype of a stored operand of the same node, if its inputs share one dtype."""
        source, initializers = scope.producers.get(name), scope.initializers
        if source is None and scope.defines(name) and (own := self._own(scope, name, None)):
            return own  # also if it differs from that of the operand, which ONNX refuses
        for nodes in (() if source is None else (source,), scope.consumers.get(name, ())[:2]):
            for node in nodes:
                if node.op in ONE_TYPE and node.scope is scope:
                    for operand in node.inputs:
                        if operand in initializers:
                            return int(initializers[operand].data_type)
        return None

    def _of_one_type(self, scope: Scope, name: str) -> Iterator[tuple[int | None, frozenset[str]]]:
        """(dtype, types that the schema allows) of a tensor and of those before it that must have the same type."""
        seen, waiting = {name}, [(scope, name)]
        while waiting and len(seen) < TIED_LIMIT:
            scope, name = waiting.pop()
            home = scope.defining_scope(name)
            if home is None:
                continue
            node = home.producers.get(name)
            own = self._own(home, name, node)
            known = schema_of(home, node.op) if own is None and node is not None else None
            formal = known.output_at(node.outputs.index(name)) if known is not None and node is not None else None
            if node is None or known is None or formal is None or not formal.homogeneous:
                yield own, UNKNOWN
                continue
            yield element_type(formal.type), known.types.get(formal.type, UNKNOWN)
            fresh = [source for source in _tied_inputs(known, node.inputs, formal.type) if source not in seen]
            seen.update(fresh)
            # All have one dtype: look at a stored weight first, because the path back through the data may be long.
            # Norms are an exception: TorchScript keeps a scale in half precision if the data became float32.
            if traits_of(node.op).numerics.norm_axis is None:
                fresh.sort(key=home.initializers.__contains__, reverse=True)
            waiting += [(home, source) for source in reversed(fresh)]

    def _own(self, home: Scope, name: str, node: Node | None) -> int | None:
        """The dtype that the file or the node declares, or that is cached."""
        known = self._known.get((home, name))
        if known is not None:
            return known
        stored = home.initializers.get(name)
        if stored is not None:
            return int(stored.data_type)
        stated = self._stated.draft(home, name).dtype
        if stated is not None or node is None:
            return stated
        if node.op in CAST_OPS:
            target = node.attribute("to")
            return target.i if target is not None and not target.ref_attr_name and target.i in DTYPES else None
        return None if any(node.inputs) else self._evaluated(home, name)


def _tied_inputs(known: Schema, inputs: tuple[str, ...], variable: str) -> list[str]:
    """Inputs whose type variable is the given one."""
    formals = [known.input_at(position) for position in range(len(inputs))]
    pairs = zip(inputs, formals, strict=True)
    return [name for name, formal in pairs if name and formal is not None and formal.type == variable]


def mixed_dtypes(nodes: Iterable[Node], dtype: Callable[[Scope, str], int | None]) -> tuple[Node, str] | None:
    """A node of several float dtypes that its operator does not take together, and why; None without one.

    Such a node never runs, and a replacement without it might.  dtype: of a tensor in a scope.
    """
    for node in nodes:
        of = partial(dtype, node.scope)
        if node.original and len(FLOATS.intersection(map(of, filter(None, (*node.inputs, *node.outputs))))) > 1:
            found = next(dtype_violations(node.proto, node.scope.versions.get(node.proto.domain, 1), of), None)
            if found:
                return node, found.rstrip(".")
    return None
