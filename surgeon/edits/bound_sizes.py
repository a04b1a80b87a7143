"""Bounds sizes that depend on data, such as the number of boxes that a NonMaxSuppression selects."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Self

import numpy as np
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.errors import UsageError
from surgeon.file.tensors.decoding import Array
from surgeon.ir.scope import Node
from surgeon.ops.traits.open_sizes import AT_LEAST, AT_MOST, COUNTS, OPEN_AXES, PART, STEPPED
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit, parse_pair
from surgeon.printed_commands import command
from surgeon.shapes.algebra.size_expressions import symbols
from surgeon.text import did_you_mean, join_all

OPSET = 12  # since which Min takes integers (ONNX changelog)
BEYOND = f"The outputs differ. They may do so if a size exceeds its bound: {command('compare', 'IN', 'OUT')}"


@dataclass(frozen=True, slots=True)
class BoundSizes(Edit):
    """Give sizes that depend on data an upper bound, so that TensorRT can plan its memory.

    A Min limits the k of TopK, the boxes per class of NonMaxSuppression, and the end of Range.  A Slice shortens the
    result of NonZero and Compress.  Sizes that follow from the shapes of inputs stay.  Other nodes with a size that
    depends on data, for example Unique, are reported and stay too.

    Results change only if a size exceeds the bound.  If that happens in the check, the result is UNPROVED.

    Raises:
        UsageError: no node has the name, the named nodes cannot be bounded, or the opset is below 12.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.BoundSizes.parse("nms*=300")
        BoundSizes(most=300, node='nms*')
    """

    most: int
    """The largest size, from 1 to 2^31 - 1."""
    node: str = "*"
    """A shell pattern that matches the name, or an output, of each node to bound."""
    flag = "bound-sizes"
    metavar = "[NODE=]N"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the bound, perhaps after a pattern of nodes."""
        node, most = parse_pair(text, cls.metavar) if "=" in text else ("*", text.strip())
        if not most.isdecimal():
            raise UsageError(f"{text!r} is not of the form {cls.metavar}.")
        return cls(int(most), node)

    @property
    def spelling(self) -> str:
        """The bound, perhaps after a pattern of nodes."""
        return f"{self.most}" if self.node == "*" else f"{self.node}={self.most}"

    @property
    def alone(self) -> bool:
        """Yes, so that the edits before and after it are proved."""
        return True

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Insert the nodes, in the main graph and in bodies."""
        if not 0 < self.most < 1 << 31:
            raise UsageError(f"A size cannot have the bound {self.most}. Give a number from 1 to 2^31 - 1.")
        scopes = [scope for scope in draft.index.scopes if not isinstance(scope.proto, FunctionProto)]
        known = {node: (node.label, *filter(None, node.outputs)) for scope in scopes for node in scope.nodes}
        named = [node for node, names in known.items() if any(fnmatchcase(name, self.node) for name in names)]
        if not named:
            labels = [name for names in known.values() for name in names]
            raise UsageError(f"No node has the name {self.node!r}; {did_you_mean(self.node, labels)}")
        able = [node for node in named if _may_be_bounded(draft, node)]
        others = [node for node in named if node not in able]
        left = [node for node in others if any(item.startswith("?") for item in _new_sizes(draft, node))]
        found = {node: self._limit(draft, node) for node in able}  # before changes, which the index does not have
        bounded = {node: limit for node, limit in found.items() if limit is not None}
        which = f"only {join_all(sorted({*COUNTS, *OPEN_AXES}))} can get one ({STEPPED}: with constant start and step)"
        if not able and self.node != "*":
            raise UsageError(f"The size of {self.node!r} cannot get a bound: {which}. Choose another node.")
        if bounded and (draft.index.main.opset or 1) < OPSET:
            how = command("upgrade", "IN", "OUT", "--opset", f"{OPSET}")
            raise UsageError(f"Min takes integers only from opset {OPSET} on. To raise the opset: {how}")
        protos = [node.proto for node in bounded]  # a node finds its own by its place, which changes
        for (node, (op, limit)), proto in zip(bounded.items(), protos, strict=True):
            _insert_limit(draft, node, proto, op, limit=limit)
        if bounded:
            draft.claim.by_structure, draft.claim.beyond = False, BEYOND
            draft.changed()
        said = [f"{node.op} {node.label!r} gets the bound {self.most:,}" for node in bounded]
        return (*said, *(f"{node.op} {node.label!r} stays without a bound: {which}" for node in left))

    def _limit(self, draft: ModelDraft, node: Node) -> tuple[str, Array] | None:
        """The op that bounds a node, and its operand; None if the size does not depend on data, or is bounded."""
        shapes, scope, constants = draft.shapes, node.scope, draft.index.constants
        if node.op in OPEN_AXES:
            readers = [reader for name in node.outputs for reader in scope.readers(name)]
            ends = [constants.array(scope, reader.inputs[2]) for reader in readers if reader.op == PART]
            is_short = bool(readers) and len(ends) == len(readers)
            is_short = is_short and all(end is not None and 0 <= end.min() <= self.most for end in ends)
            return None if is_short else (PART, np.array([self.most]))
        name, op, most = _limit_of(node), AT_MOST, self.most
        kind = helper.tensor_dtype_to_np_dtype(shapes.dtype(scope, name) or TensorProto.INT64)
        if node.op == STEPPED:
            start, _, step = (_number(draft, node, place) for place in range(3))
            op = AT_MOST if step > 0 else AT_LEAST
            most = min(max(start + most * step, np.iinfo(kind).min), np.iinfo(kind).max)
        maker, value = scope.producers.get(name), shapes.value(scope, name)
        is_known = value is not None and not any(item.startswith("?") for size in value.flat for item in symbols(size))
        known = [name] if maker is None or maker.op != op else maker.inputs
        limits = [array for array in (constants.array(scope, item) for item in known) if array is not None]
        is_within = any(array.max() <= most if op == AT_MOST else array.min() >= most for array in limits)
        is_fixed = is_known and (not limits or not _new_sizes(draft, node))
        return None if is_within or is_fixed else (op, np.array(most, kind))


def _limit_of(node: Node) -> str:
    """The tensor that limits the size of a node's result; empty without one."""
    return next(iter(node.inputs[COUNTS[node.op] :]), "")


def _number(draft: ModelDraft, node: Node, place: int) -> int:
    """The constant integer in an input; 0 for another input."""
    array = draft.index.constants.array(node.scope, node.inputs[place])
    return int(array.item()) if array is not None and array.size == 1 and array.dtype in (np.int32, np.int64) else 0


def _may_be_bounded(draft: ModelDraft, node: Node) -> bool:
    """Whether an edit can bound the result of a node.  Without its limit, NonMaxSuppression selects no box."""
    if node.op == STEPPED:
        return draft.index.constants.is_constant(node.scope, node.inputs[0]) and _number(draft, node, 2) != 0
    return node.op in OPEN_AXES or (node.op in COUNTS and _limit_of(node) != "")


def _new_sizes(draft: ModelDraft, node: Node) -> set[str]:
    """The names in sizes of a node's results that are in no size of its inputs; "?..." if they are not declared."""

    def sizes(names: Iterable[str]) -> set[str]:
        shapes = [draft.shapes.facts(node.scope, name).shape or () for name in names if name]
        return {item for shape in shapes for size in shape for item in symbols(size)}

    return sizes(node.outputs) - sizes(node.inputs)


def _insert_limit(draft: ModelDraft, node: Node, proto: NodeProto, op: str, *, limit: Array) -> None:
    """Put a Min or Max before a node, or a Slice after it."""
    graph, result = node.scope.proto, node.outputs[0]
    at, bound = list(graph.node).index(proto), _stored(draft, f"{result}_bound", limit)
    if node.op in COUNTS:
        name, count = _limit_of(node), bound
        if not draft.index.constants.is_constant(node.scope, name):
            count = draft.fresh(f"{result}_count")
            graph.node.insert(at, helper.make_node(op, [name, bound], [count]))
        proto.input[COUNTS[node.op]] = count
        return
    axis = next((item.i for item in proto.attribute if item.name == "axis"), OPEN_AXES[node.op])
    start, axes = (_stored(draft, f"{result}_{what}", np.array([one])) for what, one in (("start", 0), ("axis", axis)))
    proto.output[0] = draft.fresh(f"{result}_all")
    graph.node.insert(at + 1, helper.make_node(op, [proto.output[0], start, bound, axes], [result]))


def _stored(draft: ModelDraft, name: str, array: Array) -> str:
    """The name of a new initializer with an array."""
    fresh = draft.fresh(name)
    draft.store(numpy_helper.from_array(array, fresh))
    return fresh
