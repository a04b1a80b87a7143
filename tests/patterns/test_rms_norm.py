"""The rule for root mean square normalisation: what fires and what does not."""

import pytest
from surgeon.patterns.norms.rms_norm import rms_norm

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

F32 = "(float[n, 3, 4] x) => (float[n, 3, 4] y)"
FACTORS = "float[4] s = {1, 2, 3, 4}, float e = {1e-6}, float two = {2}, float one = {1}"
H16 = "(float16[n, 4] x) => (float16[n, 4] y)"
HALF = "float16[4] s = {15360, 15360, 15360, 15360}, float e = {1e-6}, float two = {2}, float one = {1}"


def header(opset):
    return f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> agraph '


def graph(body, head=F32, constants=FACTORS, opset=17):
    return parse(f"{header(opset)}{head} <{constants}> {{ {body} }}")


SQUARES = "p = Pow(x, two) v = ReduceMean<axes = [-1]>(p) ve = Add(v, e) q = Sqrt(ve) "
UNIT = SQUARES + "r = Div(one, q) n = Mul(x, r) "
WIDE = "c = Cast<to = 1>(x) p = Pow(c, two) v = ReduceMean<axes = [-1]>(p) ve = Add(v, e) q = Sqrt(ve) r = Div(one, q) "

LENGTH = "l = ReduceL2<axes = [-1]>(x) "
ROOTS = f"{FACTORS}, float root = {{2}}, float inverse = {{0.5}}, float floor = {{1e-12}}, int64[1] last = {{-1}}"

F64, DOUBLES = F32.replace("float", "double"), FACTORS.replace("float", "double").replace("1e-6", "0.1")

FIRES = [
    Case(rms_norm, "doubles, by an epsilon that is no float32", graph(UNIT + "y = Mul(s, n)", F64, DOUBLES)),
    Case(
        rms_norm,
        "the same for RMSNormalization",
        graph(UNIT.replace("<axes = [-1]>(p)", "(p, a)") + "y = Mul(s, n)", F64, f"{DOUBLES}, int64[1] a = {{-1}}", 23),
        target="onnx",
    ),
    Case(rms_norm, "TorchScript: one divided by the root", graph(UNIT + "y = Mul(s, n)")),
    Case(rms_norm, "the same at opset 11", graph(UNIT + "y = Mul(s, n)", opset=11)),
    Case(
        rms_norm,
        "dynamo: Reciprocal, axes as an input, from the front",
        graph(
            "p = Pow(x, two) v = ReduceMean(p, a) ve = Add(v, e) q = Sqrt(ve) r = Reciprocal(q) n = Mul(x, r) "
            "y = Mul(n, s)",
            constants=f"{FACTORS}, int64[1] a = {{2}}",
            opset=18,
        ),
    ),
    Case(
        rms_norm,
        "a scale with axes of one before, multiplied with the reciprocal first",
        graph(
            SQUARES + "r = Reciprocal(q) n = Mul(s, r) y = Mul(x, n)",
            constants=FACTORS.replace("[4] s", "[1, 1, 4] s"),
        ),
    ),
    Case(rms_norm, "divided by the root", graph(SQUARES + "n = Div(x, q) y = Mul(s, n)")),
    Case(
        rms_norm,
        "x times x",
        graph("p = Mul(x, x) v = ReduceMean<axes = [-1]>(p) ve = Add(v, e) q = Sqrt(ve) n = Div(x, q) y = Mul(n, s)"),
    ),
    Case(
        rms_norm,
        "Pow by minus one half",
        graph(
            "p = Pow(x, two) v = ReduceMean<axes = [-1]>(p) ve = Add(v, e) r = Pow(ve, h) n = Mul(x, r) y = Mul(n, s)",
            constants=f"{FACTORS}, float h = {{-0.5}}",
        ),
    ),
    Case(rms_norm, "scaled before it is divided", graph(SQUARES + "k = Mul(x, s) y = Div(k, q)")),
    Case(rms_norm, "no weight", graph(SQUARES + "y = Div(x, q)")),
    Case(rms_norm, "a number in place of the weight stays a Mul", graph(UNIT + "y = Mul(n, two)")),
    Case(rms_norm, "Gemma: one plus the weight", graph(UNIT + "w = Add(s, one) y = Mul(n, w)")),
    Case(
        rms_norm,
        "T5: a weight computed in the graph",
        graph(UNIT + "y = Mul(w, n)", head="(float[n, 3, 4] x, float[4] w) => (float[n, 3, 4] y)"),
    ),
    Case(
        rms_norm,
        "a sum divided by the number of elements",
        graph(
            "p = Pow(x, two) u = ReduceSum(p, a) v = Div(u, four) ve = Add(v, e) q = Sqrt(ve) n = Div(x, q) "
            "y = Mul(n, s)",
            constants=f"{FACTORS}, int64[1] a = {{-1}}, float four = {{4}}",
        ),
    ),
    Case(
        rms_norm,
        "Llama in float16: cast back before the weight",
        graph(WIDE + "w = Mul(c, r) n = Cast<to = 10>(w) y = Mul(s, n)", head=H16, constants=HALF),
    ),
    Case(
        rms_norm,
        "Gemma in float16: cast back after a float32 weight; the casts stay",
        graph(WIDE + "w = Mul(c, r) n = Mul(w, s) y = Cast<to = 10>(n)", head=H16),
    ),
    Case(
        rms_norm,
        "float16 throughout",
        graph(
            "p = Mul(x, x) v = ReduceMean<axes = [-1]>(p) ve = Add(v, e) q = Sqrt(ve) n = Div(x, q) y = Mul(n, s)",
            head=H16,
            constants="float16[4] s = {15360, 15360, 15360, 15360}, float16 e = {168}",
        ),
    ),
    Case(
        rms_norm,
        "two last axes",
        graph(
            "p = Pow(x, two) v = ReduceMean<axes = [1, 2]>(p) ve = Add(v, e) q = Sqrt(ve) n = Div(x, q) y = Mul(n, s)",
            constants="float[3, 4] s = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float e = {1e-6}, float two = {2}",
        ),
    ),
    Case(
        rms_norm,
        "to ai.onnx",
        graph(
            UNIT.replace("ReduceMean<axes = [-1]>(p)", "ReduceMean(p, a)") + "y = Mul(s, n)",
            opset=23,
            constants=f"{FACTORS}, int64[1] a = {{-1}}",
        ),
        target="onnx",
    ),
    Case(
        rms_norm,
        "from ONNX Runtime's op to ai.onnx",
        target="onnx",
        model=graph("y = SimplifiedLayerNormalization<epsilon = 1e-6>(x, s)", opset=23),
    ),
    Case(
        rms_norm,
        "from ai.onnx to ONNX Runtime's op",
        target="contrib",
        model=graph("y = RMSNormalization<epsilon = 1e-6>(x, s)", opset=23),
    ),
    Case(
        rms_norm,
        "ONNX Runtime's op back to primitives",
        target="decomposed",
        model=graph("y = SimplifiedLayerNormalization<epsilon = 1e-6>(x, s)"),
    ),
    Case(
        rms_norm,
        "ai.onnx back to primitives, float16",
        target="decomposed",
        model=graph(
            "y = RMSNormalization(x, s)", head=H16, constants="float16[4] s = {15360, 15360, 15360, 15360}", opset=23
        ),
    ),
    Case(
        rms_norm,
        "float16 between casts, with the weight's cast folded",
        graph(f"{WIDE} n = Mul(c, r) k = Mul(n, s) y = Cast<to = 10>(k)", H16, f"{FACTORS}"),
    ),
    *(
        Case(rms_norm, f"by the length: {title}", graph(body, constants=ROOTS))
        for title, body in (
            ("Zhang's own code without its ε", LENGTH + "m = Mul(l, inverse) n = Div(x, m) y = Mul(n, s)"),
            ("over the root of the number of elements", LENGTH + "m = Div(l, root) n = Div(x, m) y = Mul(s, n)"),
            ("no weight", LENGTH + "m = Div(l, root) y = Div(x, m)"),
            ("made longer once it has length one", LENGTH + "u = Div(x, l) m = Mul(u, root) y = Mul(s, m)"),
            ("scaled, then made longer", LENGTH + "u = Div(x, l) m = Mul(u, s) y = Mul(m, root)"),
            ("made longer and scaled before", LENGTH + "u = Mul(x, root) m = Mul(u, s) y = Div(m, l)"),
            ("the root in the weight", LENGTH + "u = Div(x, l) w = Mul(s, root) y = Mul(u, w)"),
            (
                "a sum of squares by one op",
                "q = ReduceSumSquare<axes = [-1]>(x) l = Sqrt(q) m = Mul(l, inverse) y = Div(x, m)",
            ),
            (
                "a sum of squares, and Reciprocal",
                "q = Mul(x, x) z = ReduceSum<keepdims = 1>(q, last) l = Sqrt(z) r = Reciprocal(l) m = Mul(r, root) "
                "y = Mul(x, m)",
            ),
        )
    ),
    Case(
        rms_norm,
        "by the length, in float16 between casts",
        graph(
            "c = Cast<to = 1>(x) l = ReduceL2<axes = [-1]>(c) m = Mul(l, inverse) d = Div(c, m) n = Cast<to = 10>(d) "
            "y = Mul(s, n)",
            head=H16,
            constants=f"{HALF}, float inverse = {{0.5}}",
        ),
    ),
    Case(
        rms_norm,
        "by the length, in float16 throughout",
        graph(
            LENGTH + "m = Mul(l, inverse) d = Div(x, m) y = Mul(s, d)",
            head=H16.replace("n, 4]", "n, 6]"),
            constants="float16[6] s = {15360, 15360, 15360, 15360, 15360, 15360}, float16 inverse = {13960}",
        ),
    ),
]

NEGATIVES = [
    Case(
        rms_norm,
        "the length by another number than the root of the number of elements",
        why="must be divided by the root of 4",
        model=graph(LENGTH + "m = Mul(l, one) n = Div(x, m) y = Mul(n, s)", constants=ROOTS),
    ),
    Case(
        rms_norm,
        "length one",
        why="",
        model=graph(LENGTH + "y = Div(x, l)", constants=ROOTS),
    ),
    Case(
        rms_norm,
        "an ε beside the length, where the op has it below the root",
        why="expected Sqrt or Pow, found Add",
        model=graph(LENGTH + "m = Mul(l, inverse) o = Add(m, e) n = Div(x, o) y = Mul(n, s)", constants=ROOTS),
    ),
    Case(
        rms_norm,
        "a floor below the length, which an ε is not",
        why="expected ReduceL2 or Sqrt or Pow, found Clip",
        model=graph(LENGTH + "c = Clip(l, floor) u = Div(x, c) m = Mul(u, root) y = Mul(s, m)", constants=ROOTS),
    ),
    Case(
        rms_norm,
        "LpNormalization, which makes zeros of a row of zeros, and RMSNorm without an ε NaN",
        why="",
        model=graph("l = LpNormalization<axis = -1, p = 2>(x) m = Mul(l, root) y = Mul(s, m)", constants=ROOTS),
    ),
    Case(
        rms_norm,
        "an axis that is not the last",
        why="the axes must be the last ones",
        model=graph("p = Pow(x, two) v = ReduceMean<axes = [1]>(p) ve = Add(v, e) q = Sqrt(ve) y = Div(x, q)"),
    ),
    Case(
        rms_norm,
        "the mean of the cube",
        why="",
        model=graph(
            "p = Pow(x, three) v = ReduceMean<axes = [-1]>(p) ve = Add(v, e) q = Sqrt(ve) y = Div(x, q)",
            constants=f"{FACTORS}, float three = {{3}}",
        ),
    ),
    Case(
        rms_norm,
        "the sum of the squares, which is another norm",
        why="",
        model=graph(
            "p = Pow(x, two) v = ReduceSum(p, a) ve = Add(v, e) q = Sqrt(ve) y = Div(x, q)",
            constants=f"{FACTORS}, int64[1] a = {{-1}}",
        ),
    ),
    Case(
        rms_norm,
        "a sum divided by another number",
        why="must be divided by 4",
        model=graph(
            "p = Pow(x, two) u = ReduceSum(p, a) v = Div(u, two) ve = Add(v, e) q = Sqrt(ve) y = Div(x, q)",
            constants=f"{FACTORS}, int64[1] a = {{-1}}",
        ),
    ),
    Case(
        rms_norm,
        "the squares of something else",
        why="",
        model=graph(
            "p = Pow(z, two) v = ReduceMean<axes = [-1]>(p) ve = Add(v, e) q = Sqrt(ve) y = Div(x, q)",
            head="(float[n, 3, 4] x, float[n, 3, 4] z) => (float[n, 3, 4] y)",
        ),
    ),
    Case(
        rms_norm,
        "epsilon outside the root",
        why="",
        model=graph("p = Pow(x, two) v = ReduceMean<axes = [-1]>(p) q = Sqrt(v) ve = Add(q, e) y = Div(x, ve)"),
    ),
    Case(
        rms_norm,
        "the root is used elsewhere",
        why="",
        model=graph(SQUARES + "y = Div(x, q)", head="(float[n, 3, 4] x) => (float[n, 3, 4] y, float[n, 3, 1] q)"),
    ),
    Case(
        rms_norm,
        "a last axis of unknown size and no weight",
        why="sizes of the axes must be known",
        model=graph(SQUARES + "y = Div(x, q)", head="(float[n, c] x) => (float[n, c] y)"),
    ),
    Case(
        rms_norm,
        "over all axes, of which none is named",
        why="has no axes",
        model=graph("p = Pow(x, two) v = ReduceMean(p) ve = Add(v, e) q = Sqrt(ve) y = Div(x, q)"),
    ),
    Case(
        rms_norm,
        "back to primitives, a scale that ONNX Runtime broadcasts",
        why="must have the shape of the normalised axes",
        target="decomposed",
        model=graph("y = SimplifiedLayerNormalization(x, two)"),
    ),
    Case(
        rms_norm,
        "the onnx form needs opset 23",
        why="needs opset 23",
        target="onnx",
        model=graph(UNIT + "y = Mul(s, n)"),
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The operation is found in this spelling, and the result agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Something near the operation stays as it is, and the report says why."""
    check_spares(case)


@pytest.mark.parametrize(("weight", "ops"), [
    ("1.5", ["SimplifiedLayerNormalization"]),
    ("1.0001", ["Cast", "SimplifiedLayerNormalization", "Cast"]),
])  # fmt: skip
def test_a_folded_weight_is_narrowed_where_no_digit_is_lost(weight, ops):
    """1.0001 is no number of float16: then the casts stay, and the node is one of float32."""
    constants = FACTORS.replace("{1, 2, 3, 4}", f"{{1, {weight}, 3, 4}}")
    made, _ = surgeon.rewrite(
        graph(f"{WIDE} n = Mul(c, r) k = Mul(n, s) y = Cast<to = 10>(k)", H16, constants), rms_norm
    )
    assert [node.op_type for node in made.graph.node] == ops
