"""What role each graph input plays, read off how the graph uses it.

The value is followed forwards through operators that only move or re-type it (Cast, Reshape, Concat, ...) to the
operators that give it a meaning: Gather makes it an index below a table's size, Where a mask, Reshape a shape.
`decides` asks the wider question, through arithmetic too: whether an index or a size hangs on the value at all.
Local functions are entered with their call's arguments, bodies of If, Loop and Scan through captures and arguments.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto

from surgeon.inputs.use_def import Scope, Scopes

_MOST_STEPS = 20_000  # of following one input; past that, what is known by then serves

# Operators that hand values on unchanged, by the slots that carry the values (None: all).
_MOVES: dict[str, tuple[int, ...] | None] = {
    "Cast": (0,), "CastLike": (0,), "Identity": (0,), "Reshape": (0,), "Unsqueeze": (0,), "Squeeze": (0,),
    "Expand": (0,), "Transpose": (0,), "Slice": (0,), "Concat": None, "Flatten": (0,), "Tile": (0,), "Gather": (0,),
    "GatherND": (0,), "GatherElements": (0,), "Split": (0,), "Dropout": (0,), "Clip": (0,), "Where": (1, 2),
    "Pad": (0,), "Trilu": (0,), "ScatterND": (0, 2), "ScatterElements": (0, 2), "Max": None, "Min": None,
    "Floor": (0,), "Ceil": (0,), "Round": (0,), "Not": (0,), "And": None, "Or": None, "ConcatFromSequence": (0,),
    "SequenceConstruct": None, "SequenceAt": (0,), "SplitToSequence": (0,), "ReduceMax": (0,), "ReduceMin": (0,),
}  # fmt: skip
# op, with its domain where several have it -> slot of the indices, slot of the table; the axis is the node's `axis` (0
# where it has none).
_INDEXED: dict[str, tuple[tuple[int, int], ...]] = {
    "Gather": ((1, 0),),
    "GatherElements": ((1, 0),),
    "ScatterElements": ((1, 0),),
    "GatherBlockQuantized": ((1, 0),),
    "EmbedLayerNormalization": ((0, 2), (1, 4), (8, 3)),
    "com.microsoft::RotaryEmbedding": ((1, 2),),
    "::RotaryEmbedding": ((3, 1),),
    "SoftmaxCrossEntropyLoss": ((1, 0),),
    "NegativeLogLikelihoodLoss": ((1, 0),),
}
_CLASS_AXIS = frozenset(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"))  # labels index axis 1 of the scores
# op -> slots that take a mask.
_MASKED: dict[str, tuple[int, ...]] = {
    "Where": (0,), "Compress": (1,), "EmbedLayerNormalization": (7,), "Attention": (3,), "MultiHeadAttention": (4,),
    "Xor": (0, 1),
}  # fmt: skip
# op -> slots of scores, and of what is added to them.
_SCORED: dict[str, tuple[int, ...]] = {
    "Softmax": (0,), "MultiHeadAttention": (5,), "GroupQueryAttention": (10,), "Attention": (3, 5),
}  # fmt: skip
# op -> slots that take sizes, counts or steps: small positive numbers.
_COUNTED: dict[str, tuple[int, ...]] = {
    "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2), "Slice": (2, 4), "Resize": (2, 3),
    "Upsample": (1,), "TopK": (1,), "Split": (1,), "OneHot": (1,), "NonMaxSuppression": (2,), "Pad": (1,),
    "SplitToSequence": (1,), "BlackmanWindow": (0,), "HannWindow": (0,), "HammingWindow": (0,),
}  # fmt: skip
_ZERO = {("Slice", 1), ("Slice", 3), ("Range", 0), ("Unsqueeze", 1), ("Squeeze", 1), ("Trilu", 1), ("CumSum", 1)}
_LENGTHS: dict[str, tuple[int, ...]] = {
    "ReverseSequence": (1,), "RNN": (4,), "GRU": (4,), "LSTM": (4,), "Attention": (6,), "GroupQueryAttention": (5, 6),
}  # fmt: skip
_COMPARES = frozenset(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"))
# Slots whose value is an index, a size, a count or a coordinate: out of range there, a model refuses or takes for ever.
_DECIDING = frozenset(
    {(op, slot) for table in (_COUNTED, _LENGTHS) for op, slots in table.items() for slot in slots}
    | {(op, indices) for op, pairs in _INDEXED.items() for indices, _ in pairs}
    | _ZERO
    | {("GatherND", 1), ("ScatterND", 1), ("OneHot", 0), ("Reshape", 1), ("Loop", 0), ("RoiAlign", 1), ("RoiAlign", 2)}
    | {("MaxUnpool", 1)}
)
# What these make stays small whatever the value is; behind the second row nothing of the value is left.
_BOUNDED = _COMPARES | {
    "IsNaN", "IsInf", "Not", "And", "Or", "Xor", "NonZero", "ArgMax", "ArgMin", "NonMaxSuppression", "SequenceLength"
}  # fmt: skip
_ENDS = frozenset(("Shape", "Size", "RandomNormalLike", "RandomUniformLike", "EyeLike"))
_RANKED = frozenset(("TopK", "Unique", "MaxPool"))  # all outputs but the first are positions in the input


@dataclass(slots=True)
class Role:
    """What was seen of one input.

    `limits`: sizes of the tables it indexes (a number, a free dimension's key, None if unknown), each with what is
    added to the value on the way.  `flags`: other meanings: mask, scores, condition, count, zero, target, trip, length,
    divisor.  `words`: strings that the graph knows.
    """

    limits: list[tuple[int | str | None, int]] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)


Call = tuple[Scope, NodeProto]  # where a local function was called from


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor that carries an input's value: its scope, name, the calls that led here, and the shift so far."""

    scope: Scope
    name: str
    calls: tuple[Call, ...]
    shift: int


def read_role(scopes: Scopes, name: str) -> Role:
    """Follow graph input `name` and return its role."""
    role = Role()
    places = [_Place(scopes.main, name, (), 0)]
    seen: set[tuple[int, str, tuple[int, ...]]] = set()
    while places and len(seen) < _MOST_STEPS:
        place = places.pop()
        key = (id(place.scope), place.name, tuple(id(node) for _, node in place.calls))
        if key in seen:
            continue
        seen.add(key)
        for node, slot, scope in place.scope.uses.get(place.name, ()):
            inside = _Place(scope, place.name, place.calls, place.shift)
            _note(scopes, role, node, slot, inside)
            places.extend(_onwards(scopes, role, node, slot, inside))
        if place.name in place.scope.outputs:
            places.extend(_outwards(place))
    return role


def _named(node: NodeProto) -> str:
    """An operator with its domain, where that tells two of one name apart."""
    return f"{node.domain}::{node.op_type}"


def _note(scopes: Scopes, role: Role, node: NodeProto, slot: int, place: _Place) -> None:
    """Write down what `node` makes of the value in this slot."""
    op = node.op_type
    for indices, table in _INDEXED.get(_named(node), _INDEXED.get(op, ())):
        if slot == indices and len(node.input) > table and node.input[table]:
            axis = _attribute(node, "gather_axis" if op == "GatherBlockQuantized" else "axis", int(op in _CLASS_AXIS))
            role.limits.append((_table_size(scopes, place, node.input[table], axis), place.shift))
    if op in ("GatherND", "ScatterND") and slot == 1:
        role.limits.append((_smallest_axis(scopes, place, node), place.shift))
    if op == "OneHot" and slot == 0:
        depth = scopes.constant(place.scope, node.input[1])
        role.limits.append((int(depth.ravel()[0]) if depth is not None and depth.size else None, place.shift))
    if slot in _MASKED.get(op, ()) or (op == "Cast" and _attribute(node, "to", 0) == 9):
        role.flags.add("mask")
    if slot in _SCORED.get(op, ()):
        role.flags.add("scores")
    if slot in _COUNTED.get(op, ()):
        role.flags.add("count")
    if (op, slot) in _ZERO:
        role.flags.add("zero")
    if op == "Reshape" and slot == 1:
        role.flags.add("target")
    if slot in _LENGTHS.get(op, ()):
        role.flags.add("length")
    if op == "If" or (op == "Loop" and slot == 1):
        role.flags.add("condition")
    if op == "Loop" and slot == 0:
        role.flags.add("trip")
    if op in _COMPARES:
        other = node.input[1 - slot]
        role.flags.add("compared" if scopes.constant(place.scope, other) is not None else "length")
    if op in ("Div", "Mod") and slot == 1:
        role.flags.add("divisor")
    if op == "Sub" and slot == 1 and _is_one(scopes.constant(place.scope, node.input[0])):
        role.flags.add("mask")
    if op in ("LabelEncoder", "CategoryMapper", "TfIdfVectorizer", "StringNormalizer", "OneHotEncoder"):
        for attribute in node.attribute:
            if attribute.name in ("keys_strings", "cats_strings", "pool_strings", "classes_strings"):
                role.words.extend(text.decode("utf-8", "replace") for text in attribute.strings)


def _onwards(scopes: Scopes, role: Role, node: NodeProto, slot: int, place: _Place) -> Iterator[_Place]:
    """Yield the tensors that carry the value behind `node`: its outputs, a function's or a body's inputs."""
    called = scopes.function(node)
    if called is not None:
        recursion = len(place.calls) > 32
        if slot < len(called.inputs) and not recursion:
            yield _Place(called, called.inputs[slot], (*place.calls, (place.scope, node)), place.shift)
        return
    for attribute, body in place.scope.bodies.get(id(node), ()):
        # Loop's body takes (iteration, condition, carried...), its node (trip count, condition, carried...).
        if attribute == "body" and slot < len(body.inputs) and (node.op_type != "Loop" or slot >= 2):
            yield _Place(body, body.inputs[slot], place.calls, place.shift)
    shift = place.shift
    if node.op_type in ("Add", "Sub"):
        added = _added(scopes, node, slot, place)
        if added is None:
            return
        shift += added
    elif node.op_type not in _MOVES:
        return
    else:
        slots = _MOVES[node.op_type]
        if slots is not None and slot not in slots:
            return
    for output in node.output:
        if output:
            yield _Place(place.scope, output, place.calls, shift)


def _outwards(place: _Place) -> Iterator[_Place]:
    """Yield the tensors of the calling node that an output of a function body becomes."""
    if place.calls and place.scope.parent is None:
        caller, node = place.calls[-1]
        for position, name in enumerate(place.scope.outputs):
            if name == place.name and position < len(node.output):
                yield _Place(caller, node.output[position], place.calls[:-1], place.shift)
        return
    if place.scope.parent is not None:
        parent = place.scope.parent
        for node in parent.makers.values():
            for _, body in parent.bodies.get(id(node), ()):
                if body is place.scope and node.op_type == "If":
                    position = place.scope.outputs.index(place.name)
                    yield _Place(parent, node.output[position], place.calls, place.shift)
                    return


Trace = tuple[Scope, str, bool]  # a scope, a tensor in it, and whether the value stays small whatever the input is


def decides(scopes: Scopes, name: str, harmless: set[tuple[int, str, bool]]) -> bool:
    """Whether anything computed from graph input `name` is an index, a size, a count, or how long a Loop runs.

    All operators are followed.  `harmless` holds the tensors known to decide nothing; those found so are added.
    """
    pending: list[Trace] = [(scopes.main, name, False)]
    seen: set[tuple[int, str, bool]] = set()
    while pending:
        scope, tensor, bounded = pending.pop()
        key = (id(scope), tensor, bounded)
        if key in seen or key in harmless:
            continue
        seen.add(key)
        for node, slot, place in scope.uses.get(tensor, ()):
            if not bounded and not _DECIDING.isdisjoint(((node.op_type, slot), (_named(node), slot))):
                return True
            if node.op_type not in _ENDS:
                pending.extend(_computed(scopes, node, slot, place, bounded))
        if scope.node is not None and scope.parent is not None and tensor in scope.outputs:
            if scope.node.op_type == "Loop" and tensor == scope.outputs[0]:
                return True
            pending.extend((scope.parent, output, bounded) for output in scope.node.output)
            pending.extend((scope, carried, bounded) for carried in scope.inputs)
    harmless |= seen
    return False


def _computed(scopes: Scopes, node: NodeProto, slot: int, place: Scope, bounded: bool) -> Iterator[Trace]:
    """Yield the tensors that `node` computes from the value in this slot, inside of functions and bodies too."""
    called = scopes.function(node)
    if called is not None and slot < len(called.inputs):
        yield called, called.inputs[slot], bounded
    for _, body in place.bodies.get(id(node), ()):
        yield from ((body, given, bounded) for given in body.inputs)
    op = node.op_type
    bounded = bounded or op in _BOUNDED or (op in ("Where", "If") and slot == 0)
    for position, output in enumerate(node.output):
        if output:
            yield place, output, bounded or (position > 0 and op in _RANKED)


def _added(scopes: Scopes, node: NodeProto, slot: int, place: _Place) -> int | None:
    """Return what Add or Sub adds to the value at most; None if the value does not go on as an index."""
    other = scopes.constant(place.scope, node.input[1 - slot])
    if node.op_type == "Sub":
        if slot == 1 or other is None or other.size == 0 or other.dtype.kind not in "iu":
            return None
        return -int(other.min())
    if other is None:
        return 8  # a running offset (positions behind a cache): assumed small
    if other.size == 0 or other.dtype.kind not in "iu":
        return 0 if other.dtype.kind == "f" else None
    return int(other.max())


def _table_size(scopes: Scopes, place: _Place, table: str, axis: int) -> int | str | None:
    """Return the size of a table along an axis; a function's argument is looked up where the function is called."""
    scope, calls = place.scope, list(place.calls)
    while True:
        size = scopes.dim(scope, table, axis)
        owner = scope.owner(table)
        if size is not None or not calls or table not in owner.inputs or owner.parent is not None:
            return size
        scope, node = calls.pop()
        position = owner.inputs.index(table)
        if position >= len(node.input):
            return None
        table = node.input[position]


def _smallest_axis(scopes: Scopes, place: _Place, node: NodeProto) -> int | str | None:
    """Return the smallest known size among the axes that a GatherND's index tuples may reach."""
    last = scopes.dim(place.scope, node.input[1], -1)
    first = _attribute(node, "batch_dims", 0)
    count = last if isinstance(last, int) else 1
    sizes = [_table_size(scopes, place, node.input[0], first + axis) for axis in range(count)]
    numbers = [size for size in sizes if isinstance(size, int)]
    return min(numbers) if numbers else (sizes[0] if sizes else None)


def _attribute(node: NodeProto, name: str, default: int) -> int:
    """Return an integer attribute or its default."""
    return next((int(a.i) for a in node.attribute if a.name == name and not a.ref_attr_name), default)


def _is_one(value: np.ndarray | None) -> bool:
    """Whether a constant is 1 everywhere."""
    return value is not None and value.size > 0 and value.dtype.kind in "iuf" and bool((value == 1).all())


_NAMED: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("mask", re.compile(r"mask", re.IGNORECASE)),
    ("position", re.compile(r"position", re.IGNORECASE)),
    ("length", re.compile(r"length|_lens?$|^lens?$", re.IGNORECASE)),
)


def named_role(name: str) -> str | None:
    """Return the role that a name alone suggests: mask, position, length, or None."""
    return next((kind for kind, expression in _NAMED if expression.search(name)), None)
