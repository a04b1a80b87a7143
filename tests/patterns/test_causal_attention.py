"""Attention whose mask hides the future, or nothing: what says so itself, what keeps its mask and why."""

import numpy as np
import onnx
import pytest
from surgeon.patterns.attention.causal_attention import causal_attention, no_op_mask

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, s, 32] q, float[b, s, 32] k, float[b, s, 32] v"
CACHE = f"{INPUTS}, float[b, 4, p, 8] pk, float[b, 4, p, 8] pv"
CONSTANTS = (
    "<int64 nil = {0}, int64 one = {1}, int64 two = {2}, int64[1] first = {0}, int64[1] second = {1}, "
    "int64[1] third = {2}, int64[2] front = {0, 1}, int64[4] rows = {1, 1, -1, 1}, float zero = {0}, "
    "float unit = {1}, float[1] ones = {1}, float low = {-3.4e38}, float few = {-100}, bool[1] yes = {1}, "
    "float[1, 1, 3, 3] tri = {0, -1e9, -1e9, 0, 0, -1e9, 0, 0, 0}, "
    "float[1, 1, 3, 3] free = {0, 0, 0, 0, 0, 0, 0, 0, 0}, bool[1, 1, 1, 1] all = {1}, "
    "float[1, 1, 3, 3] odd = {0, -1e9, -1e9, 0, 0, 0, 0, 0, 0}>"
)
SIZES = "z = Shape(q) n = Gather(z, one) n1 = Unsqueeze(n, first)"
RANGE = f"{SIZES} r = Range(nil, n, one) j = Unsqueeze(r, first) i = Unsqueeze(r, second)"
FUTURE = f"{RANGE} c = LessOrEqual(j, i)"
FLOATS = "f = Where(c, zero, low) m = Unsqueeze(f, front)"
BEHIND = (
    "zp = Shape(pk) p = Gather(zp, two) t = Add(p, n) o = Range(nil, t, one) j = Unsqueeze(o, first) "
    "r = Range(nil, n, one) g = Add(r, p) i = Unsqueeze(g, second) c = LessOrEqual(j, i)"
)
HEADS = "num_heads = 4, scale = 0.3"
NODE = f"y = com.microsoft.MultiHeadAttention<{HEADS}>(q, k, v, , , m)"
CACHED = f"y, a, e = com.microsoft.MultiHeadAttention<{HEADS}>(q, k, v, , , m, pk, pv)"
COUNTS = "w = Cast<to = 6>(n) l = Sub(w, whole) zb = Gather(z, nil) b1 = Unsqueeze(zb, first) last = Expand(l, b1)"
GROUPED = f"y, a, e = com.microsoft.GroupQueryAttention<{HEADS}, kv_num_heads = 4, causal = 0>"
PRESENT = "float[b, 4, u, 8] a, float[b, 4, u, 8] e, float[b, s, 32]"


def graph(body, inputs=INPUTS, opset=17, output="float[b, s, 32]"):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    constants = CONSTANTS.replace(">", ", int32 whole = {1}>")
    return parse(f"{header} ({inputs}) => ({output} y) {constants} {{ {body} }}")


def fixed(text, size=3):
    return text.replace("b, s,", f"2, {size},")


STANDARD = "float[b, 4, s, 8] q, float[b, 2, t, 8] k, float[b, 2, t, 8] v"
STANDARD_FUTURE = (
    "zq = Shape(q) n = Gather(zq, two) zk = Shape(k) o = Gather(zk, two) r = Range(nil, n, one) "
    "x = Range(nil, o, one) j = Unsqueeze(x, first) i = Unsqueeze(r, second) m = GreaterOrEqual(i, j)"
)
SHOWN = (
    f"{SIZES} zb = Gather(z, nil) b1 = Unsqueeze(zb, first) sh = Concat<axis = 0>(b1, second, n1, n1) "
    "e = Expand(all, sh)"
)
STANDARD_SHOWN = (
    "zq = Shape(q) n = Gather(zq, third) zk = Shape(k) o = Gather(zk, third) sh = Concat<axis = 0>(n, o) "
    "m = Expand(yes, sh)"
)

# fmt: off
FIRES = [
    Case(causal_attention, "ranges that are compared", graph(f"{FUTURE} {FLOATS} {NODE}")),
    Case(causal_attention, "what is behind, hidden", graph(
        f"{RANGE} c = Less(i, j) f = Where(c, low, zero) m = Unsqueeze(f, front) {NODE}")),
    Case(causal_attention, "the lower half of ones", graph(
        f"{SIZES} nn = Concat<axis = 0>(n1, n1) d = Expand(ones, nn) h = Trilu<upper = 0>(d) c = Equal(h, zero) "
        f"f = Where(c, low, zero) m = Unsqueeze(f, front) {NODE}")),
    Case(causal_attention, "the upper half of low numbers", graph(
        f"{SIZES} nn = Concat<axis = 0>(n1, n1) d = Expand(low, nn) h = Trilu<upper = 1>(d, one) "
        f"m = Unsqueeze(h, front) {NODE}")),
    Case(causal_attention, "ones less the lower half, times a low number", graph(
        f"{FUTURE} d = Cast<to = 1>(c) h = Sub(unit, d) f = Mul(h, low) m = Unsqueeze(f, front) {NODE}")),
    Case(causal_attention, "and an input that is always true", graph(
        f"{RANGE} h = LessOrEqual(j, i) x = GreaterOrEqual(i, nil) w = And(x, h) c = And(yes, w) {FLOATS} {NODE}")),
    Case(causal_attention, "repeated for each batch", graph(
        f"{FUTURE} {FLOATS.replace('m =', 'd =')} zb = Gather(z, nil) b1 = Unsqueeze(zb, first) "
        f"sh = Concat<axis = 0>(b1, second, n1, n1) m = Expand(d, sh) {NODE}")),
    Case(causal_attention, "a constant", graph(f"m = Identity(tri) {NODE}", fixed(INPUTS), output="float[2, 3, 32]")),
    Case(causal_attention, "a corner of a constant", graph(
        f"m = Slice(tri, front, ends, sides) {NODE}".replace("front, ends, sides", "none, ends, sides")
        .replace("m =", "none = Constant<value_ints = [0, 0]>() ends = Constant<value_ints = [2, 2]>() "
                 "sides = Constant<value_ints = [2, 3]>() m =", 1), fixed(INPUTS, 2), output="float[2, 2, 32]")),
    Case(causal_attention, "GroupQueryAttention", graph(
        f"{FUTURE} {FLOATS} {COUNTS} {GROUPED}(q, k, v, , , last, w, , , , m)")),
    Case(causal_attention, "behind a past", graph(f"{SIZES} {BEHIND} {FLOATS} {CACHED}", CACHE, output=PRESENT)),
    Case(causal_attention, "a condition", target="onnx",
         model=graph(f"{STANDARD_FUTURE} y = Attention(q, k, v, m)", STANDARD, 23, "float[b, 4, s, 8]")),
    Case(no_op_mask, "a condition that shows all, spread to the scores", graph(
        f"{SHOWN} m = Where(e, zero, low) {NODE}")),
    Case(no_op_mask, "no padding: a mask that is folded", graph(
        f"m = Identity(free) {NODE}", f"{fixed(INPUTS)}", output="float[2, 3, 32]")),
    Case(no_op_mask, "the future is hidden by the op itself", graph(
        f"{SHOWN} m = Where(e, zero, low) {NODE.replace('scale', 'unidirectional = 1, scale')}")),
    Case(no_op_mask, "GroupQueryAttention", graph(
        f"{SHOWN} m = Where(e, zero, low) w = Cast<to = 6>(n) l = Sub(w, whole) last = Expand(l, b1) "
        f"{GROUPED.replace('causal = 0', 'causal = 1').replace('a, e', 'a, p')}(q, k, v, , , last, w, , , , m)")),
    Case(no_op_mask, "with the projections in it", graph(
        f"{SHOWN} m = Where(e, zero, low) y = com.microsoft.Attention<num_heads = 4>(q, k, v, , , m)",
        "float[b, s, 32] q, float[32, 96] k, float[96] v")),
    Case(no_op_mask, "a condition", target="onnx",
         model=graph(f"{STANDARD_SHOWN} y = Attention(q, k, v, m)", STANDARD, 23, "float[b, 4, s, 8]")),
    Case(no_op_mask, "a condition beside the future", target="onnx", model=graph(
        f"{STANDARD_SHOWN} y = Attention<is_causal = 1>(q, k, v, m)", STANDARD, 23, "float[b, 4, s, 8]")),
]
NEGATIVES = [
    Case(causal_attention, "a mask that is given", why="more than the positions",
         model=graph(NODE, f"{INPUTS}, float[b, 1, s, s] m")),
    Case(causal_attention, "padding too", why="more than the positions",
         model=graph(f"{RANGE} h = LessOrEqual(j, i) c = And(h, seen) {FLOATS} {NODE}",
                     f"{INPUTS}, bool[s, s] seen")),
    Case(causal_attention, "a window", why="hides more than the future",
         model=graph(f"{RANGE} h = LessOrEqual(j, i) x = Sub(i, two) w = Greater(j, x) c = And(h, w) {FLOATS} {NODE}")),
    Case(causal_attention, "the past hidden", why="at a diagonal",
         model=graph(f"{RANGE} c = GreaterOrEqual(j, i) {FLOATS} {NODE}")),
    Case(causal_attention, "nothing hidden", why="too high to hide a score",
         model=graph(f"{RANGE} c0 = GreaterOrEqual(i, nil) c = Expand(c0, z2) {FLOATS} {NODE}"
                     .replace("c0 =", "z2 = Concat<axis = 0>(n1, n1) c0 ="))),
    Case(no_op_mask, "the future hidden", why="the same for all keys", model=graph(f"{FUTURE} {FLOATS} {NODE}")),
    Case(no_op_mask, "all hidden", why="not 0", model=graph(f"{SHOWN} m = Where(e, low, zero) {NODE}")),
    Case(no_op_mask, "a mask of fewer keys, which hides the rest", target="onnx", why="a shorter mask",
         model=graph(f"{STANDARD_SHOWN.replace('(n, o)', '(n, third)')} y = Attention(q, k, v, m)",
                     STANDARD, 23, "float[b, 4, s, 8]")),
    Case(causal_attention, "its own place hidden", why="begin after the past",
         model=graph(f"{RANGE} c = Less(j, i) {FLOATS} {NODE}")),
    Case(causal_attention, "a number that does not hide", why="too high to hide a score",
         model=graph(f"{FUTURE} {FLOATS.replace('low', 'few')} {NODE}")),
    Case(causal_attention, "a number in the place of zero", why="too high to hide a score",
         model=graph(f"{FUTURE} {FLOATS.replace('zero', 'unit')} {NODE}")),
    Case(causal_attention, "a constant that is no triangle", why="more than the positions",
         model=graph(f"m = Identity(odd) {NODE}", fixed(INPUTS), output="float[2, 3, 32]")),
    Case(causal_attention, "more keys than queries", why="must equal the number of queries",
         model=graph("zq = Shape(q) n = Gather(zq, one) zk = Shape(k) o = Gather(zk, one) r = Range(nil, n, one) "
                     "x = Range(nil, o, one) j = Unsqueeze(x, first) i = Unsqueeze(r, second) "
                     f"c = LessOrEqual(j, i) {FLOATS} {NODE}",
                     INPUTS.replace("s, 32] k", "t, 32] k").replace("s, 32] v", "t, 32] v"))),
    Case(causal_attention, "a diagonal from the first key on", why="begin after the past",
         model=graph(f"{SIZES} {BEHIND.replace('Add(r, p)', 'Add(r, nil)')} {FLOATS} {CACHED}", CACHE, output=PRESENT)),
    Case(causal_attention, "a window", target="onnx", why="hides more than the future",
         model=graph(f"{STANDARD_FUTURE.replace('m =', 'h =')} u = Sub(i, two) w = Greater(j, u) m = And(h, w) "
                     "y = Attention(q, k, v, m)", STANDARD, 23, "float[b, 4, s, 8]")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def attributes(model, op):
    (node,) = (node for node in model.graph.node if node.op_type == op)
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def test_each_op_says_it_in_its_own_way():
    """GroupQueryAttention is causal unless told otherwise; nothing is left of the mask."""
    made, _ = surgeon.rewrite(graph(f"{FUTURE} {FLOATS} {NODE}"), causal_attention)
    assert not {"Where", "LessOrEqual"} & {node.op_type for node in made.graph.node}
    assert attributes(made, "MultiHeadAttention")["unidirectional"] == 1
    grouped = graph(f"{FUTURE} {FLOATS} {COUNTS} {GROUPED}(q, k, v, , , last, w, , , , m)")
    made, _ = surgeon.rewrite(grouped, causal_attention)
    assert "causal" not in attributes(made, "GroupQueryAttention")
    standard = graph(f"{STANDARD_FUTURE} y = Attention(q, k, v, m)", STANDARD, 23, "float[b, 4, s, 8]")
    made, _ = surgeon.rewrite(standard, causal_attention, target="onnx")
    assert attributes(made, "Attention")["is_causal"] == 1


def run(model, rows, past):
    """What a model with a past gives for queries of so many rows."""
    numbers = np.random.default_rng(0)
    sizes = {"b": 2, "s": rows, "p": past}
    feeds = {}
    for value in model.graph.input:
        shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
        feeds[value.name] = numbers.normal(size=shape).astype(np.float32)
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    return session.run(["y"], feeds)[0]


@pytest.mark.parametrize(("rows", "past"), [(5, 3), (1, 7), (4, 1), (6, 6)])
def test_the_diagonal_begins_behind_the_past(rows, past):
    """The kernel counts the rows of queries from the end of the past on, as the mask does."""
    model = graph(f"{SIZES} {BEHIND} {FLOATS} {CACHED}", CACHE, output=PRESENT)
    made, _ = surgeon.rewrite(model, causal_attention)
    np.testing.assert_allclose(run(made, rows, past), run(model, rows, past), rtol=1e-5, atol=1e-6)


def test_a_mask_that_other_rules_change_too_is_proved():
    """The clean-up joins nodes that make the mask, and these go with it: one place, of which all parts are run."""
    two_steps = RANGE.replace("i = Unsqueeze(r, second)", "e = Unsqueeze(r, second) i = Unsqueeze(e, first)")
    core = (
        f"{two_steps} c = LessOrEqual(j, i) m = Where(c, zero, low) a = MatMul(q, k) x = Add(a, m) "
        "w = Softmax<axis = -1>(x) y = MatMul(w, v)"
    )
    inputs = "float[b, 4, s, 8] q, float[b, 4, 8, s] k, float[b, 4, s, 8] v"
    model = graph(core.replace("Gather(z, one)", "Gather(z, two)"), inputs, output="float[b, 4, s, 8]")
    made, report = surgeon.rewrite(model, ["cleanup", "attention", "causal_attention"])
    assert report.counts["causal_attention"] == 1
    assert attributes(made, "MultiHeadAttention")["unidirectional"] == 1
    assert all(site.outcome == "proved" for site in report.sites)
