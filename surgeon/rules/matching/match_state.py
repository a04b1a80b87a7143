"""The state of one attempt to match a pattern: bindings so far, and the matcher's queries to the index."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any

import numpy as np
from onnx import AttributeProto, helper

from surgeon.ir.constants import ConstantValue
from surgeon.ir.equivalence import are_equal, is_deterministic
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas import schema
from surgeon.ops.traits.trait_lookup import TRANSPARENT, traits_of
from surgeon.ops.traversal import called_function_key
from surgeon.rules.matching.listener import Listener
from surgeon.rules.matching.pattern import LiteralValue, NodePattern
from surgeon.shapes.index_shapes import shapes_of

RTOL = 2e-5  # 1.4142 is the square root of two, 1.414 and 1.415 are not
RTOL_SHORT = 5e-7  # for numbers of few digits, such as 3 or 0.044715, which exporters write exactly
RTOL_DOUBLE = 1e-9
DOUBLE = 1e-12  # a dtype with a smaller eps has the digits of a double
STEP_LIMIT = 20_000
VIRTUAL_PREFIX = "\0"  # prefix of virtual tensors, see associative.identities


@dataclass(slots=True)
class MatchCost:
    """Counts over all searches of one index."""

    attempts: int = 0
    """Roots at which a pattern was tried."""
    visited: int = 0
    """Readers passed on the way up to roots, and tensors compared with an op of a pattern."""
    steps: int = 0
    """Operands of sums and products that were expanded or assigned."""

    @classmethod
    def of(cls, index: Index) -> "MatchCost":
        """The counts of an index, over all searches."""
        return index.cached_analysis(cls, cls)

    @property
    def total(self) -> int:
        """The sum of all counts: each is about the same amount of work."""
        return sum(astuple(self))


class VariadicBinding(tuple[str, ...]):
    """The tensors of a *rest capture; a plain 1-tuple holds a number, a list or a string."""

    __slots__ = ()


class MatchState:
    """Bindings and matched nodes of one attempt; backtracking undoes additions."""

    __slots__ = (
        "bindings",
        "index",
        "listener",
        "node_of_pattern",
        "nodes",
        "producers",
        "reader",
        "scalars",
        "scope",
        "steps",
        "virtual",
        "visited",
    )

    def __init__(self, index: Index, scope: Scope) -> None:
        self.index, self.scope = index, scope
        self.producers: Mapping[str, Node] = scope.producers
        self.scalars = index.constants.scalars_of(scope)
        self.bindings: dict[str, Any] = {}
        self.nodes: list[Node] = []
        self.node_of_pattern: dict[int, Node] = {}
        self.steps = self.visited = 0
        self.virtual = 0  # number of virtual nodes so far
        self.listener: Listener | None = None
        self.reader: NodePattern | None = None  # the operation that reads the value which is being matched

    def count(self) -> None:
        """Add the cost of this attempt to that of its index."""
        work = MatchCost.of(self.index)
        work.attempts += 1
        work.visited += self.visited
        work.steps += self.steps

    def scalar(self, name: str) -> tuple[float, float, int, bool] | None:
        """(value, eps, rank, is float) of a scalar constant, or None."""
        return self.index.constants.scalar(self.scope, name)

    def is_passthrough(self, node: Node, name: str) -> bool:
        """Whether the node returns its first input unchanged, so that the matcher may look through it."""
        when = traits_of(node.op).data.identity_when
        if when == "always":
            return True
        if when == "same dtype":
            target = node.attribute("to")
            if target is None or target.ref_attr_name:
                return False
            return self.dtype(node.inputs[0]) == target.i
        return when == "inference" and name == node.outputs[0] and self._inference(node)

    def _inference(self, node: Node) -> bool:
        """Dropout without training_mode does nothing (ONNX spec: Dropout-12; before it, Dropout-7 is inference)."""
        opset = node.scope.opset or 0
        if opset < 7:
            test = node.attribute("is_test")
            return test is not None and test.i == 1
        if opset < 12 or len(node.inputs) < 3 or not node.inputs[2]:
            return True
        mode = self.scalar(node.inputs[2])
        return mode is not None and mode[0] == 0

    def canonical(self, name: str) -> str:
        """The tensor before nodes that change nothing."""
        return self.behind(name)[0]

    def behind(self, name: str) -> tuple[str, Node | None, tuple[Node, ...]]:
        """The tensor before nodes that change nothing, its producer, and those nodes."""
        passed: tuple[Node, ...] = ()
        node = self.producers.get(name)
        while node is not None and node.op in TRANSPARENT and self.is_passthrough(node, name):
            passed = (*passed, node)
            name = node.inputs[0]
            node = self.producers.get(name)
        return name, node, passed

    source_of = canonical

    def key(self, name: str) -> str:
        """The key of a tensor in the scope: its name."""
        return name

    def producer(self, name: str) -> tuple[Node, Sequence[str], int] | None:
        """The producer of a tensor, its inputs, and the output index of the tensor."""
        node = self.producers.get(name)
        return None if node is None else (node, node.inputs, node.outputs.index(name))

    def is_deterministic(self, node: Node) -> bool:
        """Whether a node gives equal outputs for equal inputs."""
        return is_deterministic(node.op, self.index.local)

    def constant(self, name: str) -> ConstantValue | None:
        """The value of a constant; None for other tensors."""
        return self.index.constants.get(self.scope, name)

    def is_constant(self, name: str) -> bool:
        """Whether the value of a tensor is fixed, for any size."""
        return self.index.constants.is_constant(self.scope, name)

    def is_default(self, name: str) -> bool:
        """Whether a tensor is an initializer that a caller may override because it is an input too."""
        home = self.scope.defining_scope(name)
        return home is not None and name in home.initializers and name in home.inputs

    def dtype(self, name: str) -> int | None:
        """The dtype of a tensor, or None."""
        return shapes_of(self.index).dtype(self.scope, name)

    def is_float(self, name: str) -> bool:
        """Whether a tensor is known to be floating-point."""
        return shapes_of(self.index).is_float(self.scope, name)

    def same_values(self, a: str, b: str) -> bool:
        """Whether two tensors hold the same values, see `surgeon.ir.equivalence`."""
        return a == b or are_equal(self, a, b)

    def rank(self, name: str) -> int | None:
        """The rank of a tensor, or None."""
        shape = shapes_of(self.index).shape(self.scope, name)
        return None if shape is None else len(shape)

    def equals(self, name: str, literal: LiteralValue) -> bool:
        """Whether a tensor is this constant, up to the precision of its dtype; a scalar may have any rank."""
        value = self.constant(name)
        if value is None:
            return False
        return constants_close(value.array, literal.value, literal.rtol, value.eps)

    def attribute_value(self, node: Node, name: str) -> tuple[bool, Any]:
        """(known, value) of an attribute, with the schema's default if it is absent; unknown if it is a reference.

        For a call the default is that of the local function; for a Transpose the axes in reverse.
        """
        item = node.attribute(name)
        if item is not None:
            return (False, None) if item.ref_attr_name else (True, plain(item))
        domain, op = split_op(node.op)
        known = schema(domain, op, node.scope.versions.get(domain))
        spec = known.attributes.get(name) if known is not None else None
        if name == traits_of(node.op).shape.output_count_attribute:
            return True, len(node.outputs)
        default = self._default_of_call(node, name) if known is None else spec.default if spec is not None else None
        if name == "perm" and node.op == "Transpose":
            rank = self.rank(node.inputs[0])
            return True, None if rank is None else list(reversed(range(rank)))
        return True, plain(default) if default is not None else None

    def _default_of_call(self, node: Node, name: str) -> AttributeProto | None:
        local = self.index.local
        function = local.get(called_function_key(node.proto)) if local.is_called(node.op) else None
        return next((item for item in function.attribute_proto if item.name == name), None) if function else None


def leave(state: MatchState, key: int, before: Node | None, mark: int) -> None:
    """Undo the match of an operation.  key: its id.  before, mark: its node and the number of nodes until then."""
    if before is None:
        del state.node_of_pattern[key]
    else:
        state.node_of_pattern[key] = before
    del state.nodes[mark:]


def plain(item: AttributeProto) -> Any:
    """An attribute as a Python value; strings as str."""
    value = helper.get_attribute_value(item)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if item.type == AttributeProto.STRINGS:
        return [text.decode("utf-8", "replace") for text in value]
    return list(value) if item.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value


@cache
def default_rtol(wanted: float, eps: float) -> float:
    """The relative tolerance of a constant for the number in the pattern, if its dtype has the digits."""
    if 0 < eps < DOUBLE:
        return RTOL_DOUBLE
    return RTOL_SHORT if float(f"{wanted:.6g}") == wanted else RTOL


def constants_close(found: Any, wanted: Any, rtol: float | None, eps: float) -> bool:
    """Whether two constants are equal up to rtol, by default `default_rtol` or half a unit in the last place."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.size != wanted.size:
        return False
    if found.size != 1 and found.shape != wanted.shape:
        return False
    if found.dtype.kind in "OSU" or wanted.dtype.kind in "OSU":
        return bool(np.all(found.reshape(-1) == wanted.reshape(-1)))
    one, two = found.reshape(-1).astype(np.float64), wanted.reshape(-1).astype(np.float64)
    allowed = rtol if rtol is not None else np.array([max(default_rtol(item, eps), eps / 2) for item in two.tolist()])
    with np.errstate(invalid="ignore"):
        return bool(np.all((one == two) | (np.abs(one - two) <= allowed * np.abs(two))))
