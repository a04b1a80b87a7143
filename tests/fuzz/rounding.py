"""Copies of a model that round otherwise: what such a copy decides otherwise, the model decides at a last digit."""

from collections.abc import Iterator

import numpy as np
import onnx
import onnx.inliner
from onnx import TensorProto, helper, numpy_helper

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, *HALVES)
LARGEST = 65504.0  # of float16
EXACT = """
    Abs ArgMax ArgMin Cast CastLike Ceil Clip Compress Concat Constant ConstantOfShape DepthToSpace Dropout Expand
    EyeLike Flatten Floor Gather GatherElements GatherND Identity If Loop Max MaxPool Min Neg OneHot Pad
    RandomUniformLike ReduceMax ReduceMin Relu Reshape Round Scan Scatter ScatterElements ScatterND Sign Slice
    SpaceToDepth Split Squeeze Tile TopK Transpose Trilu Unsqueeze Where
""".split()  # noqa: SIM905
"""Ops that choose or move numbers and round none.  A Cast to half precision rounds, which `varied` takes away."""
ARITHMETIC = """
    Add AveragePool Conv Div Einsum Gemm GlobalAveragePool MatMul Mod Mul Pow Range ReduceMean ReduceProd
    ReduceSum Sub Sum
""".split()  # noqa: SIM905
"""Ops that compute whole numbers of whole numbers, such as a size in floats, exactly."""


def nodes_of(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of bodies and of local functions too."""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [inner for body in _bodies(node) for inner in body.node]


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for item in node.attribute:
        if item.HasField("g"):
            yield item.g
        yield from item.graphs


def has_half(model: onnx.ModelProto) -> bool:
    """Whether some part of a model computes in half precision."""
    text = [
        value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output, *model.graph.value_info)
    ]
    nodes = list(nodes_of(model))
    casts = [item.i for node in nodes if node.op_type == "Cast" for item in node.attribute if item.name == "to"]
    stored = [tensor.data_type for tensor in model.graph.initializer]
    held = [item.t.data_type for node in nodes for item in node.attribute if item.type == onnx.AttributeProto.TENSOR]
    return any(dtype in HALVES for dtype in (*text, *casts, *stored, *held))


def varied(model: onnx.ModelProto, size: float, seed: int, *, mirrored: bool) -> onnx.ModelProto:
    """A copy in which each result that an op rounds is moved by a random factor from 1 - size to 1 + size, or by a
    random number up to size where the kernel's own error is of that kind.

    Half precision becomes float32, since ONNX Runtime decides from node to node which of the two it computes in; what
    float16 does not hold becomes infinite all the same.  mirrored: each factor f becomes 2 - f, so that one of a pair
    of copies crosses a limit that lies nearby.
    """
    made = onnx.shape_inference.infer_shapes(onnx.inliner.inline_local_functions(model))
    _vary(made.graph, {}, _Moves(size, seed, mirrored))
    _widen(made)
    return made


def _vary(graph: onnx.GraphProto, outer: dict[str, int], moves: "_Moves") -> None:
    """Move what a graph and its bodies compute.  outer: the dtypes of what a body sees."""
    stated = (*graph.input, *graph.output, *graph.value_info)
    dtypes = {**outer, **{value.name: value.type.tensor_type.elem_type for value in stated}}
    dtypes |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for body in _bodies(node):
            _vary(body, dtypes, moves)
        nodes.append(node)
        read = [name for name in node.input if dtypes.get(name) in FLOATS]
        for place, name in enumerate(node.output):
            made: list[onnx.NodeProto] = []
            if name and dtypes.get(name) == TensorProto.FLOAT16:
                made = [*_overflow(f"{name}/finite", name)]
                node.output[place] = f"{name}/finite"
            if name and dtypes.get(name) in FLOATS and node.op_type not in EXACT:
                moved = node.output[place]
                node.output[place] = f"{name}/exact"
                made = [*moves.nodes(node.op_type, read, f"{name}/exact", moved, dtypes[name]), *made]
            nodes += made
    del graph.node[:]
    graph.node.extend(nodes)


def _overflow(name: str, result: str) -> Iterator[onnx.NodeProto]:
    """What makes numbers infinite that float16 does not hold."""
    yield _constant(f"{name}/largest", LARGEST, TensorProto.FLOAT)
    yield _constant(f"{name}/infinite", np.inf, TensorProto.FLOAT)
    yield helper.make_node("Abs", [name], [f"{name}/size"])
    yield helper.make_node("Greater", [f"{name}/size", f"{name}/largest"], [f"{name}/over"])
    yield helper.make_node("Mul", [name, f"{name}/infinite"], [f"{name}/beyond"])
    yield helper.make_node("Where", [f"{name}/over", f"{name}/beyond", name], [result])


class _Moves:
    """Makes the nodes that move a result."""

    def __init__(self, size: float, seed: int, mirrored: bool) -> None:
        self._size, self._seed, self._mirrored, self._count = size, seed, mirrored, 0

    def nodes(self, op: str, read: list[str], name: str, result: str, dtype: int) -> Iterator[onnx.NodeProto]:
        """What moves a result of an op.  read: the floats that the op reads."""
        self._count += 1
        factor = f"{name}/drawn"
        limits = {"low": 1 - self._size, "high": 1 + self._size, "seed": float(self._seed + self._count)}
        yield helper.make_node("RandomUniformLike", [name], [f"{name}/random"], dtype=TensorProto.FLOAT, **limits)
        yield helper.make_node("Cast", [f"{name}/random"], [factor], to=dtype)
        if self._mirrored:
            yield _constant(f"{name}/two", 2.0, dtype)
            yield helper.make_node("Sub", [f"{name}/two", factor], [f"{name}/factor"])
            factor = f"{name}/factor"
        if op == "Sigmoid":  # its kernel's error is one of the largest result, so that small results have few digits
            yield _constant(f"{name}/one", 1.0, dtype)
            yield helper.make_node("Sub", [factor, f"{name}/one"], [f"{name}/step"])
            yield helper.make_node("Add", [name, f"{name}/step"], [result])
            return
        if op not in ARITHMETIC:
            yield helper.make_node("Mul", [name, factor], [result])
            return
        yield helper.make_node("Mul", [name, factor], [f"{name}/moved"])
        yield from _whole(name, f"{name}/whole0")
        for place, operand in enumerate(read, 1):
            all_of = f"{name}/operand{place}"
            yield from _whole(operand, f"{all_of}/each")
            yield helper.make_node("Cast", [f"{all_of}/each"], [f"{all_of}/number"], to=TensorProto.FLOAT)
            yield helper.make_node("ReduceMin", [f"{all_of}/number"], [f"{all_of}/least"], keepdims=0)
            yield helper.make_node("Cast", [f"{all_of}/least"], [all_of], to=TensorProto.BOOL)
            yield helper.make_node("And", [f"{name}/whole{place - 1}", all_of], [f"{name}/whole{place}"])
        yield helper.make_node("Where", [f"{name}/whole{len(read)}", name, f"{name}/moved"], [result])


def _whole(name: str, result: str) -> Iterator[onnx.NodeProto]:
    """What says which numbers of a tensor are whole."""
    yield helper.make_node("Floor", [name], [f"{result}/floor"])
    yield helper.make_node("Equal", [name, f"{result}/floor"], [result])


def _constant(name: str, value: float, dtype: int) -> onnx.NodeProto:
    array = np.asarray(value, helper.tensor_dtype_to_np_dtype(dtype))
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))


def _widen(model: onnx.ModelProto) -> None:
    """Put float32 in place of half precision.  What is stated of inner tensors is left out."""
    nodes = list(nodes_of(model))
    for graph in (model.graph, *(body for node in nodes for body in _bodies(node))):
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type in HALVES:
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        for tensor in graph.initializer:
            _widen_tensor(tensor)
    for item in (item for node in nodes for item in node.attribute):
        if item.name in ("to", "dtype", "output_dtype") and item.i in HALVES:
            item.i = TensorProto.FLOAT
        if item.type == onnx.AttributeProto.TENSOR:
            _widen_tensor(item.t)


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in HALVES:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
