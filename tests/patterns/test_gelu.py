"""The GELU rules: what fires and what does not."""

import pytest
from surgeon.patterns.activations.bias_gelu import bias_gelu
from surgeon.patterns.activations.gelu import gelu, gelu_tanh, quick_gelu

from surgeon.testing import Case, check_fires, check_spares, parse

F32 = "(float[n, 4] x) => (float[n, 4] y)"
CONSTANTS = "<float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}>"
ERF = "d = Div(x, sqrt2) e = Erf(d) a = Add(e, one)"


def graph(body, head=F32, constants=CONSTANTS, header=""):
    return parse(f"{header}{head} {constants} {{ {body} }}")


def opset(version):
    return f'<ir_version: 9, opset_import: ["" : {version}, "com.microsoft" : 1]> agraph '


def fp16(body, sqrt2=0x3DA8):
    """A float16 model; ONNX text gives float16 constants as bits, and 0x3DA8 is 1.4140625."""
    return graph(
        body,
        "(float16[n, 4] x) => (float16[n, 4] y)",
        f"<float16 sqrt2 = {{{sqrt2}}}, float16 one = {{{0x3C00}}}, float16 half = {{{0x3800}}}>",
    )


WITH_ATEN = '<ir_version: 8, opset_import: ["" : 17, "aten" : 1, "com.microsoft" : 1]> agraph '
TANH = (
    "<float c = {0.044715}, float k = {0.7978845608}, float one = {1.0}, float half = {0.5}, float three = {3.0}, "
    "float two = {2.0}>"
)

# fmt: off
FIRES = [
    Case(gelu, "the placeholder", check="sites",
         model=graph('y = aten.gelu<approximate = "none">(x)', constants="", header=WITH_ATEN)),
    Case(gelu_tanh, "the placeholder that asks for tanh", check="sites",
         model=graph('y = aten.gelu<approximate = "tanh">(x)', constants="", header=WITH_ATEN)),
    Case(gelu, "TorchScript: (x * (1 + erf)) * half", graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)")),
    Case(gelu, "dynamo: x * (half * (1 + erf))", graph(f"{ERF} m = Mul(half, a) y = Mul(x, m)")),
    Case(gelu, "by hand: (x * half) * (1 + erf)", graph(f"{ERF} m = Mul(x, half) y = Mul(m, a)")),
    Case(gelu, "operands swapped everywhere",
         graph("d = Div(x, sqrt2) e = Erf(d) a = Add(one, e) m = Mul(a, half) y = Mul(m, x)")),
    Case(gelu, "Mul by 1/sqrt(2)",
         graph("d = Mul(r, x) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
               constants="<float r = {0.70710678}, float one = {1.0}, float half = {0.5}>")),
    Case(gelu, "Div by 2 for one half",
         graph(f"{ERF} m = Mul(x, a) y = Div(m, two)",
               constants="<float sqrt2 = {1.4142135}, float one = {1.0}, float two = {2.0}>")),
    Case(gelu, "Sub of minus one",
         graph("d = Div(x, sqrt2) e = Erf(d) a = Sub(e, m1) m = Mul(x, a) y = Mul(m, half)",
               constants="<float sqrt2 = {1.4142135}, float m1 = {-1.0}, float half = {0.5}>")),
    Case(gelu, "sqrt(2) computed in the graph",
         graph("s = Sqrt(two) d = Div(x, s) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
               constants="<float two = {2.0}, float one = {1.0}, float half = {0.5}>")),
    Case(gelu, "erfc, as dynamo writes it: 1 - erf(-x / sqrt(2))",
         graph("n = Neg(x) d = Mul(n, r) e = Erf(d) c = Sub(one, e) m = Mul(x, half) y = Mul(m, c)",
               constants="<float r = {0.70710678}, float one = {1.0}, float half = {0.5}>")),
    Case(gelu, "sqrt(2) as 1.4142",
         graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)",
               constants="<float sqrt2 = {1.4142}, float one = {1.0}, float half = {0.5}>")),
    Case(gelu, "Constant nodes, one of shape [1]",
         graph("sqrt2 = Constant<value_float = 1.4142135>() one = Constant<value_floats = [1.0]>() "
               "half = Constant<value = float {0.5}>() " + f"{ERF} m = Mul(x, a) y = Mul(m, half)", constants="")),
    Case(gelu, "the half split in two quarters' products",
         graph(f"{ERF} m = Mul(x, quarter) k = Mul(m, two) y = Mul(k, a)",
               constants="<float sqrt2 = {1.4142135}, float one = {1.0}, float quarter = {0.25}, float two = {2.0}>")),
    Case(gelu, "Identity and inference Dropout between",
         graph(f"{ERF} i = Identity(a) m = Mul(x, i) o = Dropout(m) y = Mul(o, half)")),
    Case(gelu, "Cast to the type it has",
         graph(f"{ERF} c = Cast<to = 1>(a) m = Mul(x, c) y = Mul(m, half)")),
    Case(gelu, "fp16 with fp16 constants", fp16(f"{ERF} m = Mul(x, a) y = Mul(m, half)")),
    Case(gelu, "0-d input with 0-d constants",
         graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)", "(float x) => (float y)")),
    Case(gelu, "two in a row",
         graph(f"{ERF} m = Mul(x, a) g = Mul(m, half) d2 = Div(g, sqrt2) e2 = Erf(d2) a2 = Add(e2, one) "
               "m2 = Mul(half, a2) y = Mul(g, m2)"), sites=2),
    Case(gelu, "to ai.onnx::Gelu where the opset has it", target="onnx",
         model=graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)", header=opset(20))),
    Case(gelu, "com.microsoft to ai.onnx", target="onnx",
         model=graph("y = com.microsoft.Gelu(x)", constants="", header=opset(20))),
    Case(gelu, "ai.onnx to com.microsoft", target="contrib",
         model=graph("y = Gelu(x)", constants="", header=opset(20))),
    Case(gelu, "com.microsoft back to primitives", target="decomposed",
         model=graph("y = com.microsoft.Gelu(x)", constants="")),
    Case(gelu, "ai.onnx back to primitives", target="decomposed",
         model=graph("y = Gelu<approximate = \"none\">(x)", constants="", header=opset(20))),
    Case(gelu_tanh, "HF NewGELU: Pow 3",
         graph("p = Pow(x, three) q = Mul(p, c) s = Add(x, q) t = Mul(s, k) h = Tanh(t) a = Add(h, one) "
               "m = Mul(x, half) y = Mul(m, a)", constants=TANH)),
    Case(gelu_tanh, "torch tanh: x*(x*x)",
         graph("x2 = Mul(x, x) x3 = Mul(x, x2) q = Mul(c, x3) s = Add(x, q) t = Mul(k, s) h = Tanh(t) a = Add(one, h) "
               "m = Mul(x, a) y = Mul(half, m)", constants=TANH)),
    Case(gelu_tanh, "0.044715 * x * x * x from the left",
         graph("q = Mul(x, c) x2 = Mul(q, x) x3 = Mul(x2, x) s = Add(x, x3) t = Mul(s, k) h = Tanh(t) a = Add(h, one) "
               "m = Mul(x, half) y = Mul(m, a)", constants=TANH)),
    Case(gelu_tanh, "HF FastGELU: x taken out of the bracket",
         graph("q = Mul(x, c) q2 = Mul(q, x) s = Add(q2, one) kx = Mul(x, k) t = Mul(kx, s) h = Tanh(t) "
               "a = Add(h, one) m = Mul(x, half) y = Mul(m, a)", constants=TANH)),
    Case(gelu_tanh, "square as Pow 2",
         graph("x2 = Pow(x, two) q = Mul(c, x2) s = Add(one, q) kx = Mul(x, k) t = Mul(kx, s) h = Tanh(t) "
               "a = Add(h, one) m = Mul(x, half) y = Mul(m, a)", constants=TANH)),
    Case(gelu_tanh, "to ai.onnx", target="onnx",
         model=graph("p = Pow(x, three) q = Mul(p, c) s = Add(x, q) t = Mul(s, k) h = Tanh(t) a = Add(h, one) "
                     "m = Mul(x, half) y = Mul(m, a)", constants=TANH, header=opset(20))),
    Case(gelu_tanh, "from ai.onnx to FastGelu", target="contrib",
         model=graph('y = Gelu<approximate = "tanh">(x)', constants="", header=opset(20))),
    Case(gelu_tanh, "back to primitives", target="decomposed",
         model=graph("y = com.microsoft.FastGelu(x)", constants="")),
    Case(quick_gelu, "x * sigmoid(1.702 x)",
         graph("s = Mul(x, k) g = Sigmoid(s) y = Mul(x, g)", constants="<float k = {1.702}>")),
    Case(quick_gelu, "back to primitives", target="decomposed",
         model=graph("y = com.microsoft.QuickGelu<alpha = 1.702>(x)", constants="")),
    Case(bias_gelu, "bias in front of a decomposed GELU",
         graph("x = Add(w, b) " + f"{ERF} m = Mul(x, a) y = Mul(m, half)", "(float[n, 4] w) => (float[n, 4] y)",
               "<float[4] b = {1, 2, 3, 4}, float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}>")),
    Case(bias_gelu, "the bias is an input",
         graph("x = Add(b, w) y = Gelu(x)", "(float[n, 4] w, float[4] b) => (float[n, 4] y)", "", opset(20))),
    Case([gelu, bias_gelu], "after the GELU rule: one region",
         graph("x = Add(b, w) " + f"{ERF} m = Mul(x, a) y = Mul(m, half)", "(float[n, 4] w) => (float[n, 4] y)",
               "<float[4] b = {1, 2, 3, 4}, float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}>")),
]

WRONG = "<float sqrt2 = {%s}, float one = {%s}, float half = {%s}>"
NEGATIVES = [
    Case(gelu, "the placeholder that asks for tanh", why="approximate",
         model=graph('y = aten.gelu<approximate = "tanh">(x)', constants="", header=WITH_ATEN)),
    Case(gelu, "0.4 is not one half", why="expected the constant 0.5",
         model=graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)", constants=WRONG % ("1.4142135", "1.0", "0.4"))),
    Case(gelu, "1.415 is not the square root of two", why="expected the constant",
         model=graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)", constants=WRONG % ("1.415", "1.0", "0.5"))),
    Case(gelu, "1.415 is not, in fp16 either", why="expected the constant",
         model=fp16(f"{ERF} m = Mul(x, a) y = Mul(m, half)", sqrt2=0x3DA9)),
    Case(gelu, "1 + 1e-3 is not one", why="expected the constant 1 ",
         model=graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)", constants=WRONG % ("1.4142135", "1.001", "0.5"))),
    Case(gelu, "Erf is a graph output too", why="it is an output of the graph",
         model=graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)", "(float[n, 4] x) => (float[n, 4] y, float[n, 4] e)")),
    Case(gelu, "Erf is used elsewhere", why="is also read by",
         model=graph(f"{ERF} m = Mul(x, a) y = Mul(m, half) z = Neg(e)",
                     "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)")),
    Case(gelu, "two different tensors", why="'x' must be the same tensor",
         model=graph(f"{ERF} m = Mul(w, a) y = Mul(m, half)", "(float[n, 4] x, float[n, 4] w) => (float[n, 4] y)")),
    Case(gelu, "the half may be overridden by the caller", why="a caller may override",
         model=graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)", "(float[n, 4] x, float half = {0.5}) => (float[n, 4] y)",
                     "<float sqrt2 = {1.4142135}, float one = {1.0}>")),
    Case(gelu, "a [1] constant would raise the rank of a 0-d input", why="raise the rank",
         model=graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)", "(float x) => (float[1] y)",
                     "<float sqrt2 = {1.4142135}, float one = {1.0}, float[1] half = {0.5}>")),
    Case(gelu, "an Erf of another domain", why="expected Erf, found my::Erf at 'e' (domain my)",
         model=graph("d = Div(x, sqrt2) e = my.Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
                     header='<ir_version: 8, opset_import: ["" : 17, "my" : 1]> agraph ')),
    Case(gelu, "ORT runs ai.onnx::Gelu as it is", why="1 node is ai.onnx::Gelu already",
         model=graph("y = Gelu(x)", constants="", header=opset(20))),
    Case(gelu, "the tanh form is not the exact one", why="the model has no com.microsoft::Gelu", target="decomposed",
         model=graph("y = com.microsoft.FastGelu(x)", constants="")),
    Case(gelu, "Gelu with approximate=tanh is another operation", target="contrib",
         why="approximate", model=graph('y = Gelu<approximate = "tanh">(x)', constants="", header=opset(20))),
    Case(gelu, "opset 17 has no ai.onnx::Gelu", target="onnx", why="needs opset 20 and the model has 17",
         model=graph(f"{ERF} m = Mul(x, a) y = Mul(m, half)")),
    Case(gelu, "no kernel takes a GELU of integers", why="",
         model=graph("y = Neg(x)", "(int32[n] x) => (int32[n] y)", "")),
    Case(quick_gelu, "1.7 is not 1.702", why="expected the constant 1.702",
         model=graph("s = Mul(x, k) g = Sigmoid(s) y = Mul(x, g)", constants="<float k = {1.7}>")),
    Case(quick_gelu, "another alpha is another operation", why="alpha", target="decomposed",
         model=graph("y = com.microsoft.QuickGelu<alpha = 1.0>(x)", constants="")),
    Case(gelu_tanh, "0.0447 is not 0.044715", why="expected the constant",
         model=graph("p = Pow(x, three) q = Mul(p, c) s = Add(x, q) t = Mul(s, k) h = Tanh(t) a = Add(h, one) "
                     "m = Mul(x, half) y = Mul(m, a)", constants=TANH.replace("0.044715", "0.0447"))),
    Case(gelu_tanh, "FastGelu with a bias has no form without one", why="inputs", target="onnx",
         model=graph("y = com.microsoft.FastGelu(x, b)", constants="<float[4] b = {1.0, 2.0, 3.0, 4.0}>",
                     header=opset(20))),
    Case(quick_gelu, "a double keeps its digits", why="too coarse for float64",
         model=graph("s = Mul(x, k) g = Sigmoid(s) y = Mul(x, g)", "(double[n, 4] x) => (double[n, 4] y)",
                     "<double k = {1.702}>")),
    Case(gelu_tanh, "a double keeps its digits here too", why="too coarse for float64",
         model=graph("p = Pow(x, three) q = Mul(p, c) s = Add(x, q) t = Mul(s, k) h = Tanh(t) a = Add(h, one) "
                     "m = Mul(x, half) y = Mul(m, a)", "(double[n, 4] x) => (double[n, 4] y)",
                     TANH.replace("float", "double"))),
    Case(bias_gelu, "a bias of another length", why="as long as the last axis",
         model=graph("x = Add(w, b) y = Gelu(x)", "(float[n, 4] w, float[m] b) => (float[n, 4] y)", "", opset(20))),
    Case(bias_gelu, "a residual is no bias", why="must be a vector",
         model=graph("x = Add(w, b) y = Gelu(x)", "(float[n, 4] w, float[n, 4] b) => (float[n, 4] y)", "", opset(20))),
    Case(bias_gelu, "a scalar is no bias", why="must be a vector",
         model=graph("x = Add(w, b) " + f"{ERF} m = Mul(x, a) y = Mul(m, half)", "(float[n, 4] w) => (float[n, 4] y)",
                     "<float b = {1.5}, float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}>")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The rule fires, nothing else changes, and ONNX Runtime agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """No byte changes, and the report says why."""
    check_spares(case)
