"""The numbers at which a region decides: those that it speaks of, and those that inputs have to be to meet them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.file.values import decode
from surgeon.ops.records import likened_node
from surgeon.ops.walking import holders, nodes_of

MOST_EDGES = 128  # numbers that inputs have to be, all in all
_MOST_LISTED = 1 << 12  # elements of a constant that is compared with, or of an attribute
_LARGEST = 1 << 32  # of what bodies and attributes speak of; larger integers mean "to the end"
_FURTHEST = 6  # nodes between an input and what is compared
_LISTS = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
_BETWEEN_NODES = 2  # ways that are followed from one node


def numbers_in(model: ModelProto) -> dict[str, np.ndarray]:
    """The numbers that a model speaks of, as float64, by names: those of constants of the main graph are theirs.

    They are those of one element, in bodies and functions too, and what attributes hold: tensors of one element, the
    numbers of elementwise operators, and the lists of ai.onnx.ml.
    """
    found = {tensor.name: _lone(tensor) for tensor in model.graph.initializer}
    _, *inside = holders(model)
    inner = [_lone(tensor) for holder in inside for tensor in _stored(holder)]
    inner += [numbers for node in nodes_of(model) for item in node.attribute for numbers in _said(node, item)]
    found |= {f"/{place}": numbers[np.abs(numbers) <= _LARGEST] for place, numbers in enumerate(inner)}
    return {name: numbers for name, numbers in found.items() if numbers.size}


def _stored(holder: GraphProto | FunctionProto) -> Iterable[TensorProto]:
    """What is stored beside the nodes of a graph; a function has nothing."""
    return holder.initializer if isinstance(holder, GraphProto) else ()


def edges_of(model: ModelProto, *, solved: bool = True) -> list[float]:
    """What inputs have to be for what a model compares, or keeps within bounds, to be what it is compared with.

    solved: also behind sums and products with constants: x for x/4 - 3 > 1 is 16.  At most `MOST_EDGES`.
    """
    found: dict[float, None] = {}
    outer = _known(model.graph, {})
    for holder in holders(model):
        known = _known(holder, outer if isinstance(holder, GraphProto) else {})
        makers = {name: node for node in holder.node for name in node.output if name}
        for node in holder.node:
            for tensor, wanted in _wanted(node, known):
                for number in _back(tensor, wanted, known, makers.get, _FURTHEST, solved=solved):
                    if isfinite(number) and len(found) < MOST_EDGES:
                        found[number] = None
    return list(found)


def _known(holder: GraphProto | FunctionProto, outer: Mapping[str, TensorProto]) -> dict[str, TensorProto]:
    """Constants that nodes of a graph read: of the main graph too, and in another dtype or shape."""
    known = {**outer, **{tensor.name: tensor for tensor in _stored(holder)}}
    for node in holder.node:
        for tensor in _made(node):
            known[node.output[0]] = tensor
        if len(node.output) == 1 and node.input and node.input[0] in known and _copies(node):
            known[node.output[0]] = known[node.input[0]]
    return known


def _copies(node: NodeProto) -> bool:
    """Whether a node gives the elements of its first input, in whatever dtype or order."""
    op = likened_node(node)
    return op.regroups or (0,) in (op.carries, op.moves)


def _made(node: NodeProto) -> Iterator[TensorProto]:
    """The tensor that a node of no inputs, or of a size alone, makes of an attribute."""
    is_constant = not node.input or likened_node(node).spreads
    if is_constant and len(node.output) == 1:
        yield from (tensor for item in node.attribute if (tensor := _held(item)) is not None)


def _held(item: AttributeProto) -> TensorProto | None:
    """The tensor that an attribute holds, or whose numbers it lists, as a constant's may (ONNX spec, Constant-12)."""
    if item.type == AttributeProto.TENSOR:
        return item.t
    dtype = None if item.ref_attr_name else _LISTS.get(item.name)
    return None if dtype is None else numpy_helper.from_array(np.array(helper.get_attribute_value(item), dtype))


def _wanted(node: NodeProto, known: Mapping[str, TensorProto]) -> Iterator[tuple[str, list[float]]]:
    """Tensors that a node compares, or keeps within bounds, and with which numbers."""
    op = likened_node(node)
    is_bounded = op.same and op.carries == (0,) and len(node.input) > 1
    for slot, name in enumerate(node.input if op.compares or is_bounded else ()):
        if name in known and (other := node.input[1 - slot if op.compares else 0]) not in known:
            yield other, _listed(known[name])


def _back(
    tensor: str,
    numbers: list[float],
    known: Mapping[str, TensorProto],
    maker: Callable[[str], NodeProto | None],
    left: int,
    *,
    solved: bool,
) -> Iterator[float]:
    """What a tensor has to be, and what those have to be that it is computed from with constants."""
    yield from numbers
    node = maker(tensor)
    if node is None or not left:
        return
    op, reads = likened_node(node), list(node.input)
    free = [slot for slot, name in enumerate(reads) if name not in known]
    if op.family and len(free) == 1 and len(reads) == len(op.signs):
        if not solved:
            return
        (slot,) = free
        beside = [(op.signs[at], _listed(known[name])) for at, name in enumerate(reads) if at != slot]
        if all(len(held) == 1 for _, held in beside):
            told = [(sign, held[0]) for sign, held in beside]
            found = [_solved(number, op.family, op.signs[slot], told) for number in numbers]
            inner = [one for one in found if one is not None]
            yield from _back(reads[slot], inner, known, maker, left - 1, solved=solved)
    elif op.moves or op.carries or op.regroups:
        slots = [slot for slot in free if slot in (op.moves or op.carries or (0,))]
        for slot in slots[:_BETWEEN_NODES]:
            yield from _back(reads[slot], numbers, known, maker, left - 1, solved=solved)


def _solved(number: float, family: str, sign: int, others: Iterable[tuple[int, float]]) -> float | None:
    """The term, or factor, of a sign that makes a number with others; None where there is none."""
    for of_other, other in others:
        if family == "sum":
            number -= of_other * other
        elif other == 0:
            return None
        else:
            number = number / other if of_other > 0 else number * other
    if sign > 0:
        return number
    return -number if family == "sum" else 1 / number if number else None


def _said(node: NodeProto, item: AttributeProto) -> Iterator[np.ndarray]:
    """The numbers of an attribute that somebody may decide by."""
    if (tensor := _held(item)) is not None:
        yield _lone(tensor)
        return
    op = likened_node(node)
    if item.type == AttributeProto.FLOAT and (op.same or op.keeps_shape) and op.norm is None and not op.adds_up:
        yield np.array([item.f], np.float64)
    if item.type in (AttributeProto.FLOATS, AttributeProto.INTS) and node.domain == "ai.onnx.ml":
        held = item.floats if item.type == AttributeProto.FLOATS else item.ints
        yield np.unique(np.array(held[:_MOST_LISTED], np.float64))[:MOST_EDGES]


def _lone(tensor: TensorProto) -> np.ndarray:
    """The number of a constant of one element, as an array; empty for others and for what is no number."""
    return _numbers(tensor) if int(np.prod(tensor.dims)) == 1 else np.empty(0)


def _listed(tensor: TensorProto) -> list[float]:
    """The numbers of a constant, each once, unless it is long."""
    is_short = int(np.prod(tensor.dims)) <= _MOST_LISTED
    return np.unique(_numbers(tensor)).tolist()[:MOST_EDGES] if is_short else []


def _numbers(tensor: TensorProto) -> np.ndarray:
    """All numbers of a constant; none of one whose payload is cut out, or that holds what is no number."""
    is_none = tensor.data_type in (TensorProto.STRING, TensorProto.BOOL, TensorProto.UNDEFINED)
    if is_none or tensor.data_location == TensorProto.EXTERNAL:
        return np.empty(0)
    array = decode(tensor)
    return np.empty(0) if array.dtype.kind == "c" else array.reshape(-1).astype(np.float64)
