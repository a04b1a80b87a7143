"""Tensors that are quantised and dequantised again with the parameters of an earlier DequantizeLinear."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.dtype_traits import DEQUANTIZE, QUANTIZE
from surgeon.ops.traits.op_traits import EVERY
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.rules.matching.pattern import Found, Search
from surgeon.shapes.index_shapes import shapes_of

FARTHEST = 32  # maximum number of analysed nodes
KEEPS_STEPS = frozenset({"Relu", "MaxPool", "GlobalMaxPool"})  # these select among their inputs and 0


class _QuantParams(NamedTuple):
    """Per-tensor quantisation parameters."""

    scale: float
    """The scale."""
    zero: int
    """The zero point."""
    dtype: int
    """TensorProto.DataType of the integers."""


def _quantized_already(index: Index, scope: Scope) -> Iterator[Found]:
    """A QuantizeLinear and its DequantizeLinear, of numbers only moved since an earlier DequantizeLinear.

    All have the same constant scale and zero point.  Binds `x`, the numbers, and `scale`.
    """
    for back in list(scope.by_op.get(DEQUANTIZE, ())):
        there = scope.producers.get(back.inputs[0]) if back.alive else None
        params = _params_of(index, scope, back)
        if there is None or there.op != QUANTIZE or params is None or _params_of(index, scope, there) != params:
            continue
        x = there.inputs[0]
        nodes = _nodes_between(index, scope, x, params)
        if nodes is None:
            continue
        is_shared = len(scope.readers(back.inputs[0])) > 1 or index.pin_reason(scope, back.inputs[0]) is not None
        goes, stays = ((back,), (there,)) if is_shared else ((there, back), ())
        kept = tuple(sorted({*nodes, *stays}, key=lambda node: node.slot))
        yield Found(goes, back.outputs[:1], {"x": x, "scale": back.inputs[1]}, kept)


quantized_already = Search(_quantized_already, "no tensor is quantized again with the same parameters")


def _params_of(index: Index, scope: Scope, node: Node) -> _QuantParams | None:
    """The quantisation parameters of a node; None if they are not per-tensor constants."""
    scale, *zeros = (index.constants.array(scope, name) for name in node.inputs[1:] if name)
    if scale is None or scale.size != 1 or scale.dtype != np.float32 or any(each is None for each in zeros):
        return None
    known = [each for each in zeros if each is not None]
    whole = node.inputs[0] if node.op == DEQUANTIZE else node.outputs[0]
    dtype = shapes_of(index).dtype(scope, whole)
    if dtype is None or any(each.size != 1 for each in known) or len(known) != len(node.inputs[2:3]):
        return None
    return _QuantParams(float(scale.flat[0]), int(known[0].flat[0]) if known else 0, dtype)


def _nodes_between(index: Index, scope: Scope, name: str, params: _QuantParams) -> set[Node] | None:
    """The nodes between dequantised numbers and a tensor; None if it may hold other numbers."""
    found: set[Node] = set()
    pending = [name]
    while pending:
        node = scope.producers.get(pending.pop())
        if node is None or len(found) > FARTHEST:
            return None
        if node in found:
            continue
        found.add(node)
        if node.op == DEQUANTIZE:
            if _params_of(index, scope, node) != params:
                return None
            continue
        slots = (0,) if node.op in KEEPS_STEPS else traits_of(node.op).data.copies_elements
        inputs = node.inputs if slots == EVERY else [node.inputs[slot] for slot in slots if slot < len(node.inputs)]
        if not inputs or not all(inputs):
            return None
        pending += inputs
    return found
