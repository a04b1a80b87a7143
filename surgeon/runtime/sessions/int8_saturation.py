"""Exact products of uint8 by int8, on processors whose kernels saturate them.

This is the workaround for quirks.SATURATED_INT8_SUMS: "U8S8 can suffer from saturation issue" (onnxruntime.ai, Quantize
ONNX models).  Products of uint8 by uint8 do not saturate.  An int8 factor and its zero point become uint8 by adding 128
to both.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from google.protobuf.message import EncodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, shape_inference

from surgeon.ops.traversal import holds_any, subgraphs, unique_name

_HALF = 128


class _Product(NamedTuple):
    """Input slots of one product of an operator."""

    left: int | None
    """First factor; None if the operator quantises floats itself."""
    left_zero: int | None
    """Its zero point; None without one."""
    right: int
    """Second factor."""
    right_zero: int
    """Its zero point."""


PRODUCTS = {
    ("", "ConvInteger"): (_Product(0, 2, 1, 3),),
    ("", "MatMulInteger"): (_Product(0, 2, 1, 3),),
    ("", "QLinearConv"): (_Product(0, 2, 3, 5),),
    ("", "QLinearMatMul"): (_Product(0, 2, 3, 5),),
    ("com.microsoft", "DynamicQuantizeLSTM"): (_Product(None, None, 1, 9), _Product(None, None, 2, 11)),
    ("com.microsoft", "DynamicQuantizeMatMul"): (_Product(None, None, 1, 3),),
    ("com.microsoft", "MatMulIntegerToFloat"): (_Product(0, 4, 1, 5),),
    ("com.microsoft", "QAttention"): (_Product(0, 6, 1, 7),),
    ("com.microsoft", "QGemm"): (_Product(0, 2, 3, 5),),
    ("com.microsoft", "QLinearConv"): (_Product(0, 2, 3, 5),),
}


def has_uint8_int8_products(model: ModelProto) -> bool:
    """Whether some node may multiply uint8 by int8; payloads are not read."""
    return holds_any(model, PRODUCTS)


def saturation_probe() -> ModelProto:
    """A model that adds 255 · 127 twice: 64,770, or 32,767 if it saturates."""
    left = helper.make_tensor("left", TensorProto.UINT8, (1, 2), (255, 255))
    right = helper.make_tensor("right", TensorProto.INT8, (2, 1), (127, 127))
    node = helper.make_node("MatMulInteger", ("left", "right"), ("sum",))
    made = helper.make_tensor_value_info("sum", TensorProto.INT32, (1, 1))
    graph = helper.make_graph((node,), "probe", (), outputs=(made,), initializer=(left, right))
    return helper.make_model(graph, opset_imports=(helper.make_opsetid("", 13),), ir_version=8)


def with_uint8_factors(model: ModelProto) -> ModelProto:
    """The same computation with uint8 instead of int8 in products with uint8; the model itself without such products.

    The model contains its weights.  A node with a factor of unknown dtype does not change.  Neither does a model that
    is invalid or too large for onnx's inference: ONNX Runtime reports the error.
    """
    try:
        made = shape_inference.infer_shapes(model)
    except (shape_inference.InferenceError, EncodeError, RuntimeError, ValueError):
        return model
    taken = _names(made.graph)
    before = len(taken)
    _even_graph(made.graph, {}, taken)
    return made if len(taken) > before else model


def _names(graph: GraphProto) -> set[str]:
    """The names of all tensors, also in bodies."""
    own = {port.name for port in graph.input} | {tensor.name for tensor in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    return own.union(*(_names(body) for node in graph.node for body in subgraphs(node)))


def _even_graph(graph: GraphProto, around: dict[str, int], taken: set[str]) -> None:
    """Change the nodes of a graph and of its bodies.  around: dtypes of tensors of outer scopes."""
    dtypes = {**around, **_dtypes(graph)}
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        for body in subgraphs(node):
            _even_graph(body, dtypes, taken)
        graph.node.extend(_even_node(node, dtypes, taken))
        graph.node.append(node)


def _dtypes(graph: GraphProto) -> dict[str, int]:
    ports = (*graph.input, *graph.output, *graph.value_info)
    found = {port.name: port.type.tensor_type.elem_type for port in ports}
    return found | {tensor.name: tensor.data_type for tensor in graph.initializer}


def _even_node(node: NodeProto, dtypes: dict[str, int], taken: set[str]) -> Iterator[NodeProto]:
    """Nodes that convert the int8 inputs of a node to uint8; the node then reads their results."""
    for product in PRODUCTS.get((node.domain, node.op_type), ()):
        left = _dtype(node, dtypes, product.left, product.left_zero)
        right = _dtype(node, dtypes, product.right, product.right_zero)
        if right != TensorProto.INT8 or (product.left is not None and left != TensorProto.UINT8):
            continue
        node.input.extend([""] * (product.right_zero + 1 - len(node.input)))
        for slot in (product.right, product.right_zero):
            name = unique_name(f"{node.input[slot] or node.output[0]}:raised", taken)
            yield from _raised(node.input[slot], name, taken)
            node.input[slot] = name


def _dtype(node: NodeProto, dtypes: dict[str, int], slot: int | None, zero: int | None) -> int | None:
    """The dtype of a factor, which is also that of its zero point."""
    known = (dtypes.get(_input(node, at)) for at in (slot, zero) if at is not None)
    return next((dtype for dtype in known if dtype), None)


def _input(node: NodeProto, slot: int) -> str:
    inputs: Sequence[str] = node.input
    return inputs[slot] if slot < len(inputs) else ""


def _raised(name: str, to: str, taken: set[str]) -> Iterator[NodeProto]:
    """Nodes that compute an int8 tensor plus 128 as uint8; an omitted tensor counts as 0."""
    taken.add(to)
    if not name:
        yield helper.make_node("Constant", (), (to,), value=helper.make_tensor("", TensorProto.UINT8, (), (_HALF,)))
        return
    wide, half, higher = (unique_name(f"{to}:{part}", taken) for part in ("wide", "half", "higher"))
    taken.update((wide, half, higher))
    yield helper.make_node("Cast", (name,), (wide,), to=TensorProto.INT32)
    yield helper.make_node("Constant", (), (half,), value=helper.make_tensor("", TensorProto.INT32, (), (_HALF,)))
    yield helper.make_node("Add", (wide, half), (higher,))
    yield helper.make_node("Cast", (higher,), (to,), to=TensorProto.UINT8)
