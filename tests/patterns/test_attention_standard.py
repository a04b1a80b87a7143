"""Attention of ONNX itself, from opset 23 on: what is fused into it, what is not, and why, and what its mask is."""

import numpy as np
import onnx
import pytest
from surgeon.patterns.attention.attention import attention, masked_attention

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, 4, s, 8] q, float[b, 4, 8, t] k, float[b, 4, t, 6] v, float[b, 1, s, t] m, bool[b, 1, s, t] c"
CONSTANTS = (
    "<float scale = {0.3535}, float zero = {0}, float low = {-3.4028234663852886e38}, float never = {-inf}, "
    "float cap = {30}, float half = {0.5}, float least = {-65504}>"
)
SCORES = "a = MatMul(q, k) z = Mul(a, scale)"
END = "p = Softmax<axis = -1>(x) y = MatMul(p, v)"
GUARDED = "p = Softmax<axis = -1>(x) i = IsNaN(p) w = Where(i, zero, p) y = MatMul(w, v)"
ZEROED = "p = Softmax<axis = -1>(x) w = Where(c, zero, p) y = MatMul(w, v)"
ADDED = f"{SCORES} x = Add(z, m) {END}"
HIDDEN = f"{SCORES} x = Where(c, low, z) {END}"
THREE = "float[n, s, 8] q, float[n, 8, t] k, float[n, t, 6] v, float[n, s, t] m"
ROWS = "float[n, s, 6]"


def graph(body, inputs=INPUTS, opset=23, output="float[b, 4, s, 6]", constants=CONSTANTS):
    header = f'<ir_version: 10, opset_import: ["" : {opset}]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {constants} {{ {body} }}")


def of_mask(shape, body=ADDED):
    return graph(body, INPUTS.replace("float[b, 1, s, t] m", f"float[{shape}] m"))


HALF = INPUTS.replace("float[", "float16[").replace("float16[b, 1, s, t] m", "float[b, 1, s, t] m")
WIDE = (
    "a = MatMul(q, k) n = Cast<to = 1>(a) z = Mul(n, scale) x = Add(z, m) p = Softmax<axis = -1>(x) "
    "r = Cast<to = 10>(p) y = MatMul(r, v)"
)
HALVES = (
    "l = Cast<to = 10>(least) o = Cast<to = 10>(zero) e = Cast<to = 10>(scale) n = Where(c, l, o) "
    f"a = MatMul(q, k) z = Mul(a, e) x = Add(z, n) {END}"
)

# fmt: off
FIRES = [
    Case(masked_attention, "a condition whose batches follow from its elements", target="onnx",
         model=parse("""<ir_version: 10, opset_import: ["" : 23]> g (float[b, 4, s, 8] q, float[b, 4, 8, s] k,
             float[b, 4, s, 6] v, bool[d, 1, 1, f] c) => (float[b, 4, s, 6] y)
             <float scale = {0.3535}, float least = {-65504}, int64[3] ones = {-1, 1, 1}, int64[1] four = {4},
             bool[b, 4, s, s] e> {
             n = Shape<start = 2, end = 3>(q) o = Shape<start = 0, end = 1>(q) h = Concat<axis = 0>(ones, n)
             r = Reshape<allowzero = 1>(c, h) w = Concat<axis = 0>(o, four, n, n) e = Expand(r, w) a = MatMul(q, k)
             z = Mul(a, scale) x = Where(e, least, z) p = Softmax<axis = -1>(x) y = MatMul(p, v) }""")),
    Case(attention, "a mask", graph(ADDED), target="onnx"),
    Case(attention, "at the newest opset", graph(ADDED, opset=24), target="onnx"),
    Case(attention, "no mask and no scale", graph(f"x = MatMul(q, k) {END}"), target="onnx"),
    Case(attention, "a mask of one row for all queries", of_mask("b, 1, 1, t"), target="onnx"),
    Case(attention, "a mask of one column for all keys", of_mask("b, 1, s, 1"), target="onnx"),
    Case(attention, "a mask without batch and heads", of_mask("s, t"), target="onnx"),
    Case(attention, "a mask of one axis", of_mask("t"), target="onnx"),
    Case(attention, "a mask for each head", of_mask("4, s, t"), target="onnx"),
    Case(attention, "two masks", target="onnx",
         model=graph(f"{SCORES} e = Add(z, o) x = Add(e, m) {END}", f"{INPUTS}, float[1, 4, s, t] o")),
    Case(attention, "a mask that hides whole rows with the least number", target="onnx",
         model=graph(f"n = Where(c, low, zero) {SCORES} x = Add(z, n) {END}")),
    Case(attention, "a mask in halves that hides whole rows with the least number", target="onnx",
         model=graph(HALVES, HALF, output="float16[b, 4, s, 6]")),
    Case(attention, "a row that is all masked gives zero", target="onnx",
         model=graph(f"n = Where(c, never, zero) {SCORES} x = Add(z, n) {GUARDED}")),
    Case(attention, "a softmax in float32 for halves", graph(WIDE, HALF, output="float16[b, 4, s, 6]"), target="onnx"),
    Case(attention, "capped scores", target="onnx",
         model=graph(f"{SCORES} d = Div(z, cap) h = Tanh(d) o = Mul(h, cap) x = Add(o, m) {END}")),
    Case(attention, "three axes", graph(f"{SCORES} x = Identity(z) {END}", THREE, output=ROWS), target="onnx"),
    Case(attention, "three axes and a mask", graph(ADDED, THREE, output=ROWS), target="onnx"),
    Case(attention, "three axes and a mask for all", target="onnx",
         model=graph(ADDED, THREE.replace("float[n, s, t] m", "float[t] m"), output=ROWS)),
    Case(masked_attention, "scores hidden by a condition", graph(HIDDEN), target="onnx"),
    Case(masked_attention, "scores chosen by a condition", target="onnx",
         model=graph(HIDDEN.replace("Where(c, low, z)", "Where(c, z, low)"))),
    Case(masked_attention, "scores hidden for good, rows of them guarded", target="onnx",
         model=graph(f"{SCORES} x = Where(c, never, z) {GUARDED}")),
    Case(masked_attention, "biased scores hidden by a condition", target="onnx",
         model=graph(f"{SCORES} e = Add(z, m) x = Where(c, low, e) {END}")),
    Case(masked_attention, "a condition of one row for all queries", target="onnx",
         model=graph(HIDDEN, INPUTS.replace("bool[b, 1, s, t]", "bool[b, 1, 1, t]"))),
    Case(masked_attention, "three axes and a condition", target="onnx",
         model=graph(HIDDEN, f"{THREE}, bool[n, s, t] c", output=ROWS)),
]
NEGATIVES = [
    Case(attention, "an opset without Attention", graph(ADDED, opset=17), target="onnx",
         why="raise it with: surgeon upgrade IN OUT --opset 23"),
    Case(masked_attention, "an opset without Attention, and a condition", graph(HIDDEN, opset=22), target="onnx",
         why="raise it with: surgeon upgrade IN OUT --opset 23"),
    Case(attention, "double precision", target="onnx", why="no attention op computes in float64",
         model=graph(ADDED, INPUTS.replace("float", "double"), 23, "double[b, 4, s, 6]",
                     CONSTANTS.replace("float ", "double "))),
    Case(masked_attention, "double precision, and a condition", target="onnx",
         why="no attention op computes in float64",
         model=graph(HIDDEN, INPUTS.replace("float", "double"), 23, "double[b, 4, s, 6]",
                     CONSTANTS.replace("float ", "double "))),
    Case(attention, "a mask for other heads", of_mask("b, 2, s, t"), target="onnx", why="the mask has 2 heads"),
    Case(attention, "a mask of more axes than the scores", target="onnx", why="more axes than the scores",
         model=graph(ADDED, THREE.replace("float[n, s, t] m", "float[1, n, s, t] m"), output=f"float[1, {ROWS[6:]}")),
    Case(masked_attention, "a number that hides nothing", graph(HIDDEN.replace("low", "half")), target="onnx",
         why="too high to hide a score"),
    Case(masked_attention, "a number that hides nothing, whose weights become 0", target="onnx", why="too high to hide",
         model=graph(f"{SCORES} x = Where(c, half, z) {ZEROED}")),
    Case(masked_attention, "weights of hidden scores that become another", target="onnx", why="only by 0",
         model=graph(f"{SCORES} x = Where(c, low, z) {ZEROED.replace('zero', 'half')}")),
    Case(masked_attention, "weights of others that become 0", target="onnx", why="only weights of hidden scores",
         model=graph(f"{SCORES} x = Where(c, low, z) {ZEROED.replace('zero, p', 'p, zero')}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def fused(model, rule):
    """The model with Attention, and that node."""
    made, _ = surgeon.rewrite(model, rule, target="onnx", check="sites")
    (node,) = (node for node in made.graph.node if node.op_type == "Attention")
    return made, node


def test_a_condition_that_hides_for_good_is_the_mask_itself():
    """No number stands for it: the kernel knows which keys count."""
    made, node = fused(graph(f"{SCORES} x = Where(c, z, never) {GUARDED}"), masked_attention)
    assert node.input[3] == "c"
    made, node = fused(graph(f"{SCORES} x = Where(c, never, z) {GUARDED}"), masked_attention)
    assert {"Not"} == {other.op_type for other in made.graph.node if other.output[0] == node.input[3]}


def test_a_finite_number_stays_one():
    """A row that is hidden whole is the mean of the values, not zero."""
    made, node = fused(graph(HIDDEN), masked_attention)
    feeds = {
        "q": np.random.default_rng(0).standard_normal((1, 4, 2, 8)).astype(np.float32),
        "k": np.random.default_rng(1).standard_normal((1, 4, 8, 3)).astype(np.float32),
        "v": np.random.default_rng(2).standard_normal((1, 4, 3, 6)).astype(np.float32),
        "m": np.zeros((1, 1, 2, 3), np.float32),
        "c": np.array([[[[True, True, True], [False, True, True]]]]),
    }
    session = opened(made)
    (found,) = session.run(None, {item.name: feeds[item.name] for item in session.get_inputs()})
    np.testing.assert_allclose(found[0, :, 0], feeds["v"][0].mean(1), rtol=1e-5)
    np.testing.assert_allclose(found[0, :, 1], feeds["v"][0, :, 0], rtol=1e-5)


def opened(model):
    """The model opened with ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def test_heads_scale_and_cap_are_read_from_the_graph():
    """As for the runtime's own op."""
    capped = f"{SCORES} d = Div(z, cap) h = Tanh(d) o = Mul(h, cap) x = Add(o, m) {END}"
    _, node = fused(graph(capped), attention)
    found = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    assert found == {"scale": pytest.approx(0.3535), "softcap": 30.0}
