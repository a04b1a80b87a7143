"""transposes_around_ops: nodes that compute in the layout before a Transpose or Reshape, and what does not match."""

import pytest
from surgeon.patterns.layout.transposes_around_ops import transposes_around_ops

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.models import ops

FIRST = "t = Transpose<perm = [0, 3, 1, 2]>(x)"
OTHER = "u = Transpose<perm = [0, 3, 1, 2]>(z)"
BACK = "y = Transpose<perm = [0, 2, 3, 1]>"


def model(body, constants="", inputs="float[n, 4, 5, 3] x", made="float[] y", opset=18):
    """Channels of x that are moved to the front."""
    text = f"({inputs}) => ({made}) {f'<{constants}>' if constants else ''} {{ {body} }}"
    return parse(f'<ir_version: 9, opset_import: ["" : {opset}]> g {text}')


def moved(body, constants="", **settings):
    return model(f"{FIRST} {body}", constants, **settings)


def two(body, constants="", made="float[] y"):
    return model(f"{FIRST} {OTHER} {body}", constants, "float[n, 4, 5, 3] x, float[n, 4, 5, 3] z", made)


# fmt: off
FIRES = [
    Case(transposes_around_ops, "one node", moved(f"r = Relu(t) {BACK}(r)")),
    Case(transposes_around_ops, "a number, limits and another dtype", moved(
        f"a = Mul(t, k) b = Clip(a, zero, k) c = Cast<to = 10>(b) {BACK}(c)", "float k = {2}, float zero = {0}",
        made="float16[] y")),
    Case(transposes_around_ops, "a bias for each channel", moved(f"r = Add(t, b) q = Tanh(r) {BACK}(q)",
                                                                 "float[3, 1, 1] b = {1, 2, 3}")),
    Case(transposes_around_ops, "a row of all axes but the first", moved(f"r = Sub(b, t) {BACK}(r)",
                                                                         "float[5] b = {1, 2, 3, 4, 5}")),
    Case(transposes_around_ops, "a residual", two(f"s = Sigmoid(u) a = Mul(t, s) b = Add(a, t) {BACK}(b)")),
    Case(transposes_around_ops, "two Transposes that become one", two("y = Where(c, t, u) c = Less(t, u)")),
    Case(transposes_around_ops, "one that others read", moved(f"r = Relu(t) {BACK}(r) z = Neg(r)",
                                                              made="float[] y, float[] z")),
    Case(transposes_around_ops, "what is an output too", moved(f"r = Relu(t) {BACK}(r) p = {BACK[4:]}(q) q = Neg(r)",
                                                               made="float[] y, float[] p, float[] r")),
    Case(transposes_around_ops, "a Slice", moved(f"r = Slice(t, s, e, a) {BACK}(r)",
                                                 "int64[1] s = {1}, int64[1] e = {3}, int64[1] a = {2}")),
    Case(transposes_around_ops, "a Slice of the first axes, in int32", moved(
        f"r = Slice(t, s, e) {BACK}(r)", "int32[2] s = {0, 1}, int32[2] e = {9, 3}")),
    Case(transposes_around_ops, "a Slice before opset 10", moved(
        f"r = Slice<starts = [1], ends = [3], axes = [-1]>(t) {BACK}(r)", opset=9)),
    Case(transposes_around_ops, "a channel", moved("r = Gather<axis = 1>(t, i) y = Relu(r)", "int64 i = {1}")),
    Case(transposes_around_ops, "two rows", moved(f"r = Gather<axis = 2>(t, i) {BACK}(r)", "int64[2] i = {1, 0}")),
    Case(transposes_around_ops, "a Concat", two(f"r = Concat<axis = -3>(t, u) {BACK}(r)")),
    Case(transposes_around_ops, "a Softmax", moved(f"r = Softmax<axis = 1>(t) {BACK}(r)")),
    Case(transposes_around_ops, "a mean that multiplies", moved(
        f"r = ReduceMean<keepdims = 1>(t, a) m = Mul(t, r) {BACK}(m)", "int64[2] a = {2, -1}")),
    Case(transposes_around_ops, "a sum without its axis", moved(
        "r = ReduceSum<keepdims = 0>(t, a) y = Transpose<perm = [0, 2, 1]>(r)", "int64[1] a = {-1}")),
    Case(transposes_around_ops, "the largest channel", moved("r = ArgMax<axis = 1, keepdims = 0>(t) y = Abs(r)",
                                                             made="int64[] y")),
    Case(transposes_around_ops, "a sum so far", moved(f"r = CumSum(t, a) {BACK}(r)", "int32 a = {1}")),
    Case(transposes_around_ops, "a norm of columns that stay last", model(
        "t = Transpose<perm = [0, 2, 1, 3]>(x) r = LayerNormalization<axis = -1>(t, s) "
        "y = Transpose<perm = [0, 2, 1, 3]>(r)", "float[3] s = {1, 2, 3}")),
    Case(transposes_around_ops, "a computed bias, as one Transpose more goes", moved(
        f"c = Unsqueeze(b, a) r = Add(t, c) {BACK}(r)", "int64[2] a = {2, 3}",
        inputs="float[n, 4, 5, 3] x, float[n, 3] b")),
    Case(transposes_around_ops, "between Squeeze and Unsqueeze", model(
        "s = Squeeze(x, a) r = Relu(s) y = Unsqueeze(r, a)", "int64[1] a = {1}", "float[n, 1, 5] x")),
    Case(transposes_around_ops, "between Reshapes", model(
        "s = Reshape(x, a) q = Shape(x) r = Erf(s) y = Reshape(r, q)", "int64[2] a = {-1, 5}", "float[n, 4, 5] x")),
    Case(transposes_around_ops, "a sum of two that are reshaped alike", model(
        "s = Flatten(x) t = Flatten(z) r = Add(s, t) q = Shape(x) y = Reshape(r, q)",
        inputs="float[n, 4, 5] x, float[n, 4, 5] z")),
]
NEGATIVES = [
    Case(transposes_around_ops, "nothing cancels", moved("y = Relu(t)")),
    Case(transposes_around_ops, "another order", moved("r = Relu(t) y = Transpose<perm = [0, 1, 3, 2]>(r)")),
    Case(transposes_around_ops, "a Transpose that others read", moved(f"r = Add(t, b) m = MatMul(t, t) {BACK}(r)",
        inputs="float[n, 4, 4, 3] x, float[n, 3, 4, 4] b", made="float[] y, float[] m")),
    Case(transposes_around_ops, "a bias with fewer axes that is computed", moved(
        f"c = Relu(b) r = Add(t, c) {BACK}(r)", inputs="float[n, 4, 5, 3] x, float[3, 1, 1] b")),
    Case(transposes_around_ops, "an operand that adds an axis", moved(
        "r = Add(t, b) y = Transpose<perm = [0, 1, 3, 4, 2]>(r)",
        inputs="float[n, 4, 5, 3] x, float[2, 1, 1, 1, 1] b")),
    Case(transposes_around_ops, "a norm of columns that move", moved(
        f"r = LayerNormalization<axis = -1>(t, s) {BACK}(r)", "float[5] s = {1, 2, 3, 4, 5}")),
    Case(transposes_around_ops, "a Softmax over two axes", moved(f"r = Softmax<axis = 2>(t) {BACK}(r)", opset=11)),
    Case(transposes_around_ops, "axes that are computed", moved(
        f"r = ReduceSum(t, a) {BACK}(r)", inputs="float[n, 4, 5, 3] x, int64[1] a")),
    Case(transposes_around_ops, "a scale for each channel", moved(
        f"r = QuantizeLinear<axis = 1>(t, s) {BACK}(r)", "float[3] s = {1, 2, 3}", made="uint8[] y")),
    Case(transposes_around_ops, "a sum between Reshapes that broadcasts", model(
        "s = Reshape(x, a) q = Shape(x) r = Add(s, b) y = Reshape(r, q)",
        "int64[2] a = {-1, 5}, float[5] b = {1, 2, 3, 4, 5}", "float[n, 4, 5] x")),
    Case(transposes_around_ops, "a Softmax between Reshapes", model(
        "s = Reshape(x, a) q = Shape(x) r = Softmax(s) y = Reshape(r, q)", "int64[2] a = {-1, 5}", "float[n, 4, 5] x")),
    Case(transposes_around_ops, "a Reshape to another shape", model(
        "s = Reshape(x, a) r = Relu(s) y = Reshape(r, q)", "int64[2] a = {-1, 5}, int64[1] q = {-1}",
        "float[n, 4, 5] x")),
    Case(transposes_around_ops, "an input that depends on an output", moved(
        f"r = Relu(t) m = MatMul(r, r) {BACK}(a) a = Add(t, m)", inputs="float[n, 4, 4, 3] x")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    report = check_spares(case)
    assert report.misses


def test_what_a_branch_reads_stays_as_it_is():
    """A Transpose in the body of an If reads the tensor in its own layout."""
    body = f"""{FIRST} r = Relu(t) {BACK}(r) z = If (c) <
        then_branch = a () => (float[k, 4, 5, 3] p) {{ p = Transpose<perm = [0, 2, 3, 1]>(r) }},
        else_branch = b () => (float[k, 4, 5, 3] q) {{ q = Identity(x) }}>"""
    given = model(body, inputs="float[n, 4, 5, 3] x, bool c", made="float[] y, float[] z")
    made, report = surgeon.rewrite(given, [transposes_around_ops], check="both")
    assert report.outcome in ("proved", "unchanged")
    assert ops(made.graph).count("Relu") == 1


def test_inputs_that_an_earlier_rule_redirected_are_read():
    """The node still names the Identity in the file, which is gone."""
    given = moved(f"i = Identity(t) r = Relu(i) {BACK}(r)")
    made, report = surgeon.rewrite(given, "identity,transposes_around_ops")
    assert report.outcome == "proved"
    assert ops(made.graph) == ["Relu"]
