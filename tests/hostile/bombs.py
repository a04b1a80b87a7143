"""Bombs: small files that say something enormous, endless, deadly or of no sense."""

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from surgeon.testing import parse

MIN, MAX = -(1 << 63), (1 << 63) - 1
HEAD = "(float[n, 4] x) => (float[n, 4] y)"


def bombs() -> Iterator[tuple[str, bytes]]:
    """Each by name."""
    for make in _BOMBS:
        yield make.__name__.strip("_").replace("_", " "), _bytes(make())
    for name, text in _COMPUTED.items():
        yield name, parse(text.replace("MIN", str(MIN)).replace("MAX", str(MAX))).SerializeToString()


def _bytes(made: onnx.ModelProto | bytes) -> bytes:
    return made if isinstance(made, bytes) else made.SerializeToString()


# What is computed from constants alone, or from sizes: it kills, takes all memory, or never ends.
_COMPUTED = {
    "the least integer over minus one": (
        "() => (int64[1] y) <int64[1] a = {MIN}, int64[1] b = {-1}> { y = Div(a, b) }"
    ),
    "the least integer modulo minus one": (
        "() => (int64[1] y) <int64[1] a = {MIN}, int64[1] b = {-1}> { y = Mod(a, b) }"
    ),
    "a division by zero": ("() => (int64[1] y) <int64[1] a = {1}, int64[1] b = {0}> { y = Div(a, b) }"),
    "the least integer over minus one, of data": (
        "(int64[n] x) => (int64[n] y) <int64 a = {MIN}, int64 b = {-1}> { m = Max(x, b) k = Min(m, b) z = "
        "Add(x, a) y = Div(a, k) }"
    ),
    "a square of a million": ("() => (float[a, b] y) <int64[2] s = {1000000, 1000000}> { y = ConstantOfShape(s) }"),
    "an expansion to 2 to the 62": (
        "(float[1] x) => (float[a] y) <int64[1] s = {4611686018427387904}> { y = Expand(x, s) }"
    ),
    "a tile of a billion": ("(float[8] x) => (float[a] y) <int64[1] s = {1000000000}> { y = Tile(x, s) }"),
    "a range of 2 to the 60": (
        "() => (int64[a] y) <int64 f = {0}, int64 t = {1152921504606846976}, int64 s = {1}> { y = Range(f, t, s) }"
    ),
    "a range of tiny steps": (
        "() => (float[a] y) <float f = {0}, float t = {1e30}, float s = {1e-30}> { y = Range(f, t, s) }"
    ),
    "a range of no steps": ("() => (int64[a] y) <int64 f = {0}, int64 t = {9}, int64 s = {0}> { y = Range(f, t, s) }"),
    "padding of 2 to the 40": (
        "(float[n, 4] x) => (float[a, b] y) <int64[4] p = {0, 1099511627776, 0, 0}> { y = Pad(x, p) }"
    ),
    "negative padding": ("(float[n, 4] x) => (float[a, b] y) <int64[4] p = {-9, -9, -9, -9}> { y = Pad(x, p) }"),
    "one of 10 to the 12": (
        "(int64[n] i) => (float[n, d] y) <int64 d = {1000000000000}, float[2] v = {0, 1}> { y = OneHot(i, d, v) }"
    ),
    "a resize by a billion": (
        "(float[1, 1, h, w] x) => (float[1, 1, a, b] y) <float[4] s = {1, 1, 1e9, 1e9}, float[0] r = {}> { y "
        "= Resize(x, r, s) }"
    ),
    "a loop of 10 to the 12": (
        "(float[n] x) => (float[n] y) <int64 k = {1000000000000}, bool c = {1}> { y = Loop(k, c, x) <body = "
        "b (int64 i, bool g, float[n] h) => (bool o, float[n] z) { o = Identity(g) z = Add(h, h) }> }"
    ),
    "a loop that collects for ever": (
        "(float[n] x) => (float[n] y, float[k, n] all) <int64 k = {1000000000000}, bool c = {1}> { y, all = "
        "Loop(k, c, x) <body = b (int64 i, bool g, float[n] h) => (bool o, float[n] z, float[n] w) { o = "
        "Identity(g) z = Add(h, h) w = Identity(h) }> }"
    ),
    "a reshape to minus two": ("(float[n, 4] x) => (float[n, 4] y) <int64[2] s = {-2, 4}> { y = Reshape(x, s) }"),
    "a reshape to two unknowns": ("(float[n, 4] x) => (float[n, 4] y) <int64[2] s = {-1, -1}> { y = Reshape(x, s) }"),
    "a reshape to too much": ("(float[n, 4] x) => (float[n, 4] y) <int64[2] s = {MAX, MAX}> { y = Reshape(x, s) }"),
    "a slice by the limits": (
        "(float[n, 4] x) => (float[n, 4] y) <int64[1] a = {MIN}, int64[1] b = {MAX}, int64[1] s = "
        "{MIN}> { y = Slice(x, a, b, a, s) }"
    ),
    "a convolution of no group": (
        "(float[1, 2, h, w] x, float[2, 2, 1, 1] k) => (float[1, 2, h, w] y) { y = Conv<group = 0>(x, k) }"
    ),
    "a transposed convolution of no group": (
        "(float[1, 2, h, w] x, float[2, 2, 1, 1] k) => (float[1, 2, h, w] y) { y = ConvTranspose<group = 0>(x, k) }"
    ),
    "a convolution of another rank": (
        "(float[1, 2, h, w] x) => (float[1, 2, h, w] y) <float[2, 2] k = {1, 2, 3, 4}> { y = Conv(x, k) }"
    ),
    "strides of zero": (
        "(float[1, 2, 8, 8] x) => (float[1, 2, h, w] y) { y = MaxPool<kernel_shape = [1, 1], strides = [0, 0]>(x) }"
    ),
    "a kernel of 2 to the 40": (
        "(float[1, 2, 8, 8] x) => (float[1, 2, h, w] y) { y = MaxPool<kernel_shape = [1099511627776, 1]>(x) }"
    ),
    "a split into nothing": (
        "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z) <int64[2] s = {-4, 8}> { y, z = Split<axis = 1>(x, s) }"
    ),
    "axis 99": ("(float[n, 4] x) => (float[n, 4] y) { s = Softmax<axis = 99>(x) y = Transpose<perm = [9, -9]>(s) }"),
    "a cast to 99": ("(float[n, 4] x) => (float[n, 4] y) { y = Cast<to = 99>(x) }"),
    "an equation of no sense": (f'{HEAD} {{ y = Einsum<equation = "{"abcdefghij" * 50},...->{"z" * 300}">(x) }}'),
    "an addition of nothing": ("(float[n, 4] x) => (float[n, 4] y) { y = Add() }"),
    "a product of one": ("(float[n, 4] x) => (float[n, 4] y) { y = Mul(x) }"),
    "a node that reads itself": ("(float[n, 4] x) => (float[n, 4] y) { y = Add(x, y) }"),
    "what nothing makes": ("(float[n, 4] x) => (float[n, 4] y) { y = Add(x, nowhere) }"),
    "batches below all": (
        "(float[3, 4] x) => (float[a] y) <int64[2] i = {1, 1}> { y = GatherND<batch_dims = -2147483648>(x, i) }"
    ),
    "a norm from axis 2 to the 31 on": (
        "(float[n, 4] x) => (float[n, 4] y) <float[4] w = {1, 1, 1, 1}> {"
        " y = LayerNormalization<axis = 2147483648>(x, w) }"
    ),
    "an expansion by 2 to the 31 numbers": (
        "(float[1, 4611686018427387904, 2, 4611686018427387904, n] x, float[2147483648] s) => (float[a] y)"
        " { y = Expand(x, s) }"
    ),
    "heads of no size": (
        "(float[b, s, 8] q) => (float[b, s, 8] y) { y = com.microsoft.GroupQueryAttention<num_heads = 0, "
        "kv_num_heads = 0>(q, q, q) }"
    ),
    "a transformation of sizes that swells": (
        "(float[n, m] x) => (int64[k] y) { s0 = Shape(x) "
        + " ".join(f"s{i + 1} = Mul(s{i}, s{i})" for i in range(60))
        + " y = Identity(s60) }"
    ),
    "sizes that multiply out": (
        "(float[n, m, k, l] x) => (int64[a] y) { s0 = Shape(x) t = ReduceSum(s0) p0 = Add(s0, t) "
        + " ".join(f"p{i + 1} = Mul(p{i}, p0)" for i in range(30))
        + " y = Identity(p30) }"
    ),
    "a constant that doubles": (
        "() => (float[k] y) <float[1] c0 = {1}> { "
        + " ".join(f"c{i + 1} = Concat<axis = 0>(c{i}, c{i})" for i in range(40))
        + " y = Identity(c40) }"
    ),
    "data that double": (
        "(float[k] c0) => (float[l] y) { "
        + " ".join(f"c{i + 1} = Concat<axis = 0>(c{i}, c{i})" for i in range(60))
        + " y = Identity(c60) }"
    ),
    "a tower of powers": (
        "() => (int64[1] y) <int64[1] p0 = {9}> { "
        + " ".join(f"p{i + 1} = Pow(p{i}, p{i})" for i in range(30))
        + " y = Identity(p30) }"
    ),
    "a sum that doubles": (
        "(float[n] a0) => (float[n] y) { "
        + " ".join(f"a{i + 1} = Add(a{i}, a{i})" for i in range(64))
        + " y = Erf(a64) }"
    ),
}


def _named(text: str, **names: str) -> onnx.ModelProto:
    model = parse(text)
    for node in model.graph.node:
        for old, new in names.items():
            node.input[:] = [new if name == old else name for name in node.input]
            node.output[:] = [new if name == old else name for name in node.output]
    for value in (*model.graph.input, *model.graph.output):
        value.name = names.get(value.name, value.name)
    return model


def _plain() -> onnx.ModelProto:
    return parse(f"{HEAD} {{ e = Erf(x) y = Relu(e) }}")


def _functions_that_call_the_last_twice() -> onnx.ModelProto:
    model = parse(f"{HEAD} {{ y = Relu(x) }}")
    model.opset_import.add(domain="my", version=1)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    for number in range(40):
        op, domain = (f"F{number - 1}", "my") if number else ("Relu", "")
        nodes = [helper.make_node(op, ["a"], ["b"], domain=domain), helper.make_node(op, ["b"], ["c"], domain=domain)]
        model.functions.append(helper.make_function("my", f"F{number}", ["a"], ["c"], nodes, opsets))
    model.graph.node[0].CopyFrom(helper.make_node("F39", ["x"], ["y"], domain="my"))
    return model


def _a_function_that_calls_itself() -> onnx.ModelProto:
    model = _functions_that_call_the_last_twice()
    model.functions[0].node[0].CopyFrom(helper.make_node("F39", ["a"], ["b"], domain="my"))
    return model


def _two_functions_of_one_name() -> onnx.ModelProto:
    model = _functions_that_call_the_last_twice()
    del model.functions[3:]
    model.functions.append(model.functions[2])
    model.graph.node[0].op_type = "F2"
    return model


def _bodies_in_bodies(depth: int = 30) -> onnx.ModelProto:
    node = helper.make_node("Relu", ["x"], ["r"])
    for level in range(depth):
        out = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
        body = helper.make_graph([node], f"b{level}", [], [out])
        node = helper.make_node("If", ["c"], ["r"], then_branch=body, else_branch=body if level < 6 else _leaf())
    node.output[0] = "y"
    given = [helper.make_tensor_value_info("x", 1, ["n"]), helper.make_tensor_value_info("c", 9, [])]
    graph = helper.make_graph([node], "g", given, [helper.make_tensor_value_info("y", 1, ["n"])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _leaf() -> onnx.GraphProto:
    out = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node("Neg", ["x"], ["r"])], "leaf", [], [out])


def _messages_in_messages() -> bytes:
    """An attribute in a node in a graph in an attribute, 3,000 times."""
    data = b""
    for _ in range(3000):
        for tag in (0x32, 0x2A, 0x0A):  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            data = bytes([tag]) + _varint(len(data)) + data
    return b"\x08\x08\x3a" + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _a_length_beyond_all() -> bytes:
    return b"\x08\x08\x3a" + _varint((1 << 63) - 1) + b"\0" * 64


def _a_number_without_end() -> bytes:
    return b"\x08" + b"\xff" * 64


def _nothing() -> bytes:
    return b""


def _zeros() -> bytes:
    return b"\0" * 4096


def _a_picture() -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def _a_graph_where_a_number_is_expected() -> onnx.ModelProto:
    model = parse(f"{HEAD} {{ y = Softmax<axis = 1>(x) }}")
    (axis,) = model.graph.node[0].attribute
    axis.ClearField("i")
    axis.type = onnx.AttributeProto.GRAPH
    axis.g.CopyFrom(_leaf())
    return model


def _an_attribute_without_its_field() -> onnx.ModelProto:
    model = parse(f"{HEAD} {{ c = Constant<value = float {{1}}>() s = Softmax<axis = 1>(x) y = Mul(s, c) }}")
    for node in model.graph.node:
        for item in node.attribute:
            kind = item.type
            item.CopyFrom(onnx.AttributeProto(name=item.name, type=kind))
    return model


def _opset_beyond() -> onnx.ModelProto:
    model = _plain()
    model.opset_import[0].version = 1 << 31
    return model


def _opset_below() -> onnx.ModelProto:
    model = _plain()
    model.opset_import[0].version = MIN
    return model


def _opsets_twice() -> onnx.ModelProto:
    model = _plain()
    model.opset_import.add(domain="", version=11)
    return model


def _ir_version_beyond() -> onnx.ModelProto:
    model = _plain()
    model.ir_version = MAX
    return model


def _an_output_without_name() -> onnx.ModelProto:
    return _named(f"{HEAD} {{ e = Erf(x) y = Relu(e) }}", y="")


def _an_initializer_twice() -> onnx.ModelProto:
    model = parse(f"{HEAD} <float c = {{1}}> {{ y = Mul(x, c) }}")
    model.graph.initializer.append(model.graph.initializer[0])
    return model


def _an_input_without_type() -> onnx.ModelProto:
    model = _plain()
    model.graph.input[0].ClearField("type")
    return model


def _names_that_draw() -> onnx.ModelProto:
    model = _named(
        f"{HEAD} {{ e = Erf(x) y = Relu(e) }}", e="\x1b[2J\x1b]0;owned\x07\u202etxt", x="a\nError: b", y="[bold]y"
    )
    model.graph.node[0].name = "\r\x1b[1A[red]"
    model.graph.node[1].name = "n" * 1_000_000
    model.graph.node[1].op_type = "Relu\x1b[5m"
    model.opset_import.add(domain="\x1b[0m", version=3)
    helper.set_model_props(model, {"\x1b": "\n"})
    return model


def _names_that_are_no_text() -> bytes:
    data = _named(f"{HEAD} {{ e = Erf(x) y = Relu(e) }}", e="QQQQQQQQ").SerializeToString()
    return data.replace(b"QQQQQQQQ", b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8")


def _words_that_are_no_text() -> onnx.ModelProto:
    model = parse("(float[n] x) => (string[2] y, float[n] z) { y = Identity(w) z = Relu(x) }")
    model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.STRING, dims=[2]))
    model.graph.initializer[0].string_data.extend([b"\xff\xfe", b"\x1b[2J"])
    return model


def _data_of_no_type() -> onnx.ModelProto:
    model = parse(f"{HEAD} <float c = {{1}}> {{ y = Mul(x, c) }}")
    model.graph.initializer[0].data_type = 99
    return model


def _data_of_another_size() -> onnx.ModelProto:
    model = parse(f"{HEAD} <float[4] c = {{1, 2, 3, 4}}> {{ e = Erf(x) y = Mul(e, c) }}")
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend([1 << 40, 1 << 40])
    return model


def _data_of_negative_size() -> onnx.ModelProto:
    model = parse(f"{HEAD} <float[4] c = {{1, 2, 3, 4}}> {{ e = Erf(x) y = Mul(e, c) }}")
    model.graph.initializer[0].dims[0] = -4
    return model


def _data_elsewhere(offset: str = "0", length: str = "16", location: str = "w.data") -> onnx.ModelProto:
    model = parse(f"{HEAD} <float[4] c = {{1, 2, 3, 4}}> {{ e = Erf(x) y = Mul(e, c) }}")
    (tensor,) = model.graph.initializer
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=value)
    return model


def _data_far_away() -> onnx.ModelProto:
    return _data_elsewhere(location="../../../../etc/passwd")


def _data_of_a_device() -> onnx.ModelProto:
    return _data_elsewhere(location="/dev/zero")


def _data_in_the_model_itself() -> onnx.ModelProto:
    return _data_elsewhere(location="in.onnx", length="8")


def _data_before_the_start() -> onnx.ModelProto:
    return _data_elsewhere(location="in.onnx", offset="-16")


def _data_by_other_digits() -> onnx.ModelProto:
    return _data_elsewhere(location="in.onnx", offset="٠", length="１６")


def _sparse_data_of_negative_size() -> onnx.ModelProto:
    model = parse(f"{HEAD} {{ e = Erf(x) y = Mul(e, c) }}")
    values = numpy_helper.from_array(np.ones(2, np.float32), "c")
    at = numpy_helper.from_array(np.array([0, 1 << 40]), "ci")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, at, [-4]))
    return model


def _sparse_data_of_2_to_the_60() -> onnx.ModelProto:
    model = _sparse_data_of_negative_size()
    model.graph.sparse_initializer[0].dims[0] = 1 << 60
    return model


def _a_size_that_is_a_formula() -> onnx.ModelProto:
    model = _plain()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "9**9**9**9"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "(" * 100_000
    return model


def _a_size_below_nothing() -> onnx.ModelProto:
    model = _plain()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -5
    return model


def _a_hundred_thousand_inputs() -> onnx.ModelProto:
    model = parse("(float[n, 4] x) => (float[m, 4] y) { y = Concat<axis = 0>(x, x) }")
    model.graph.node[0].input.extend(["x"] * 100_000)
    return model


def _a_chain_of_fifty_thousand() -> onnx.ModelProto:
    model = parse(f"{HEAD} {{ y = Relu(x) }}")
    nodes = [
        helper.make_node(("Neg", "Relu", "Identity")[i % 3], [f"t{i}" if i else "x"], [f"t{i + 1}"])
        for i in range(50_000)
    ]
    nodes[-1].output[0] = "y"
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _a_graph_of_no_nodes() -> onnx.ModelProto:
    return helper.make_model(helper.make_graph([], "", [], []))


def _no_graph() -> onnx.ModelProto:
    return onnx.ModelProto(ir_version=8)


def _ten_thousand_outputs() -> onnx.ModelProto:
    model = _plain()
    for _ in range(10_000):
        model.graph.output.append(model.graph.output[0])
    return model


_BOMBS: tuple[Callable[[], onnx.ModelProto | bytes], ...] = (
    _functions_that_call_the_last_twice,
    _a_function_that_calls_itself,
    _two_functions_of_one_name,
    _bodies_in_bodies,
    _messages_in_messages,
    _a_length_beyond_all,
    _a_number_without_end,
    _nothing,
    _zeros,
    _a_picture,
    _a_graph_where_a_number_is_expected,
    _an_attribute_without_its_field,
    _opset_beyond,
    _opset_below,
    _opsets_twice,
    _ir_version_beyond,
    _an_output_without_name,
    _an_initializer_twice,
    _an_input_without_type,
    _names_that_draw,
    _names_that_are_no_text,
    _words_that_are_no_text,
    _data_of_no_type,
    _data_of_another_size,
    _data_of_negative_size,
    _data_elsewhere,
    _data_far_away,
    _data_of_a_device,
    _data_in_the_model_itself,
    _data_before_the_start,
    _data_by_other_digits,
    _sparse_data_of_negative_size,
    _sparse_data_of_2_to_the_60,
    _a_size_that_is_a_formula,
    _a_size_below_nothing,
    _a_hundred_thousand_inputs,
    _a_chain_of_fifty_thousand,
    _a_graph_of_no_nodes,
    _no_graph,
    _ten_thousand_outputs,
)
