"""The small models that are mutated: between them they have all that a model can hold."""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from surgeon.testing import parse
from tests.model_samples import everywhere

TEXTS: Mapping[str, str] = {
    "gelu": """(float[n, 4] x) => (float[n, 4] y)
        <float root = {1.4142135}, float one = {1.0}, float half = {0.5}, float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9,
        10, 11, 12, 13, 14, 15, 16}>
        { m = MatMul(x, w) d = Div(m, root) e = Erf(d) a = Add(e, one) p = Mul(m, a) y = Mul(p, half) }""",
    "norm": """(float[b, s, 8] x, float[8] scale) => (float[b, s, 8] y)
        <float two = {2.0}, float epsilon = {1e-5}, float[8] bias = {0, 1, 2, 3, 4, 5, 6, 7}>
        { m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) s = Pow(d, two) v = ReduceMean<axes = [-1]>(s)
          e = Add(v, epsilon) r = Sqrt(e) q = Div(d, r) t = Mul(q, scale) y = Add(t, bias) }""",
    "attention": """(float[b, 2, t, 4] q, float[b, 2, 4, t] k, float[b, 2, t, 4] v, bool[b, 1, t, t] mask)
        => (float[b, 2, t, 4] y)
        <float scale = {0.5}, float low = {-3.4028234663852886e+38}>
        { s = MatMul(q, k) z = Mul(s, scale) w = Where(mask, z, low) p = Softmax<axis = -1>(w) y = MatMul(p, v) }""",
    "shapes": """(float[n, 4] x) => (float[m] y, int64[2] size)
        <int64[1] minus = {-1}, int64 zero = {0}, int64[1] start = {0}, int64[1] end = {1}>
        { size = Shape(x) n = Gather(size, zero) u = Unsqueeze(n, start) c = Concat<axis = 0>(u, end)
          k = Slice(size, start, end) r = Reshape(x, minus) f = Flatten<axis = 1>(x) t = Transpose<perm = [1, 0]>(f)
          w = Transpose<perm = [1, 0]>(t) v = Reshape(w, minus) y = Add(r, v) }""",
    "bodies": """(float[n, 4] x, bool c, int64 k) => (float[n, 4] y, float[n, 4] z)
        { y = If(c) <then_branch = yes () => (float[n, 4] r) { r = Relu(x) },
                     else_branch = no () => (float[n, 4] s) { i = Identity(x) s = Neg(i) }>
          z = Loop(k, c, x) <body = round (int64 i, bool go, float[n, 4] h) => (bool on, float[n, 4] g)
                             { on = Identity(go) a = Add(h, x) g = Tanh(a) }> }""",
    "convolution": """(float[n, 2, h, w] x) => (float[n, 3, a, b] y)
        <float[3] scale = {1, 2, 3}, float[3] bias = {0, 1, 2}, float[3] mean = {0, 0, 1}, float[3] var = {1, 2, 1},
         float[3, 2, 1, 1] k = {1, 2, 3, 4, 5, 6}>
        { c = Conv<kernel_shape = [1, 1], strides = [1, 1], pads = [0, 0, 0, 0]>(x, k)
          o = BatchNormalization<epsilon = 1e-5>(c, scale, bias, mean, var) r = Relu(o)
          y = MaxPool<kernel_shape = [1, 1]>(r) }""",
    "integers": """(uint8[n, 4] x, int64[k] i) => (float[n, 4] y, int64[k] z)
        <float s = {0.1}, uint8 p = {128}, uint8[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
         int64 two = {2}, int64 big = {-9223372036854775808}, int64 minus = {-1}>
        { f = DequantizeLinear(x, s, p) q = QuantizeLinear(f, s, p) m = MatMulInteger(q, w, p)
          y = Cast<to = 1>(m) d = Div(i, two) e = Mul(d, two) z = Sub(i, e) }""",
}
FUNCTIONS = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
    g (float[n, 4] x) => (float[n, 4] y) { a = my.twice<by = 2.0>(x) y = my.once(a) }
    <domain: "my", opset_import: ["" : 17, "my" : 1]>
    twice <by> (x) => (y) { c = Constant<value_float: float = @by>() y = Mul(x, c) }
    <domain: "my", opset_import: ["" : 17, "my" : 1]>
    once (x) => (y) { r = Relu(x) i = Identity(r) y = my.twice<by = 0.5>(i) }"""


def subjects() -> dict[str, onnx.ModelProto]:
    """All of them, by name."""
    models = {name: parse(text) for name, text in TEXTS.items()}
    models["functions"] = onnx.parser.parse_model(FUNCTIONS)
    models["everywhere"] = everywhere()
    models["everywhere"].graph.input.append(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [600]))
    models["everywhere"].opset_import.add(domain="my", version=1)
    models["words"] = _words()
    for name, model in models.items():
        model.graph.doc_string, model.producer_name = f"what {name} is for", "hostile"
        helper.set_model_props(model, {"purpose": "to be mutated"})
    return models


def _words() -> onnx.ModelProto:
    """Strings, half precision, and data in a sparse tensor."""
    model = parse(
        """(string[n] s, float16[2, 3] h) => (int64[k] y, float16[2, 3] g, float[4] t)
        { y = LabelEncoder(s) a = Abs(h) g = Sqrt(a) t = Neg(u) }"""
    )
    (encoder,) = [node for node in model.graph.node if node.op_type == "LabelEncoder"]
    encoder.domain = "ai.onnx.ml"
    encoder.attribute.extend(
        [helper.make_attribute("keys_strings", ["a", "ä"]), helper.make_attribute("values_int64s", [1, 2])]
    )
    model.opset_import.add(domain="ai.onnx.ml", version=4)
    values = numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "u")
    at = numpy_helper.from_array(np.array([0, 2]), "ui")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, at, [4]))
    return model
