"""Attention: what is fused into MultiHeadAttention and Attention, what does not match and why."""

import onnx
import pytest
from surgeon.patterns.attention.attention import attention, masked_attention, padded_attention
from surgeon.patterns.cleanup.consecutive_casts import consecutive_casts
from surgeon.patterns.cleanup.constant_folding import constant_folding

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, 4, s, 8] q, float[b, 4, 8, t] k, float[b, 4, t, 6] v, float[b, 1, s, t] m, bool[b, 1, s, t] c"
CONSTANTS = (
    "<float scale = {0.3535}, float root = {2.8284}, float quarter = {0.5946}, float zero = {0}, float two = {2}, "
    "float low = {-3.4028234e38}, float cap = {30}, float half = {0.5}, "
    "int64[1] first = {0}, int64[1] one = {1}, int64[1] last = {-1}, int64[1] all = {9223372036854775807}>"
)
SCORES = "a = MatMul(q, k) x = Mul(a, scale)"
END = "p = Softmax<axis = -1>(x) y = MatMul(p, v)"
MASKED = f"{SCORES.replace('x =', 'z =')} x = Add(z, m) {END}"
BUFFER = (
    "rs = Shape<start = 2, end = 3>(q) ts = Shape<start = 3, end = 4>(k) wide = Constant<value_ints = [64]>() "
    "ra = Sub(one, rs) rb = Max(first, ra) ca = Sub(wide, ts) cb = Max(first, ca) axis = Constant<value_ints = [2]>() "
    "bs = Slice(buffer, rb, all, one) bias = Slice(bs, cb, all, axis)"
)
GUARDED = MASKED.replace("y = MatMul(p, v)", "i = IsNaN(p) g = Where(i, zero, p) y = MatMul(g, v)")


def graph(body, inputs=INPUTS, opset=17, output="float[b, 4, s, 6]", constants=CONSTANTS):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {constants} {{ {body} }}")


def half(text):
    return text.replace("float[", "float16[")


WIDE = (
    "a = MatMul(q, k) n = Cast<to = 1>(a) z = Mul(n, scale) x = Add(z, m) p = Softmax<axis = -1>(x) "
    "r = Cast<to = 10>(p) y = MatMul(r, v)"
)
THREE = "float[n, s, 8] q, float[n, 8, t] k, float[n, t, 6] v, float[n, s, t] m"
HALF = half(INPUTS).replace("float16[b, 1, s, t] m", "float[b, 1, s, t] m")

HIDDEN = f"{SCORES.replace('x =', 'z =')} x = Where(c, z, low)"
PADDING = "float[b, 4, s, 8] q, float[b, 4, 8, t] k, float[b, 4, t, 6] v, bool[b, 1, s, t] c, float[b, 1, 1, t] pad"
PADDED = (
    f"{SCORES.replace('x =', 'z =')} few = Constant<value_float = -10000.0>() unit = Constant<value_float = 1.0>() "
    "i = Sub(unit, pad) h = Mul(i, few) w = Where(c, z, few) x = Add(w, h)"
)
ZEROED = "p = Softmax<axis = -1>(x) u = Where(c, p, zero) y = MatMul(u, v)"
HALVES = "<float16 scale = {13568}, float16 low = {64511}>"  # as bits: 0.25 and -65504

WINDOWS = INPUTS.replace("[b, 4, s, 8]", "[b, 9, 4, 7, 8]").replace("[b, 4, 8, t]", "[b, 9, 4, 8, 5]")
WINDOWS, WINDOWED = WINDOWS.replace("[b, 4, t, 6]", "[b, 9, 4, 5, 6]"), "float[b, 9, 4, 7, 6]"
ONE_HEAD = INPUTS.replace("float[b, 4, 8, t]", "float[b, 1, 8, t]").replace("float[b, 4, t, 6]", "float[b, 1, t, 6]")

EIGHTS = "float[b, 4, s, 8] q, float[b, 4, 8, s] k, float[b, 4, s, 8] v, float[b, 1, s, s] m, float[1, 4, 1, 1] o"
SUNK = (
    f"{MASKED.split(' p =')[0]} j = Shape<end = 3>(q) n = Concat<axis = 0>(j, one) e = Expand(o, n) "
    "w = Concat<axis = -1>(x, e) p = Softmax<axis = -1>(w) r = Slice(p, first, last, last) y = MatMul(r, v)"
)
SINK_PLACES = ", int64[1] first = {0}, int64[1] one = {1}, int64[1] last = {-1}>"
SQUARE = EIGHTS.replace("float[b, 1, s, s] m", "float[1, 1, w, w] m")
# fmt: off
FIRES = [
    Case(attention, "a mask as high as it is wide, whose sizes have a name of their own",
         graph(MASKED, SQUARE, output="float[b, 4, s, 8]")),
    Case(attention, "such a mask, for the standard op", graph(MASKED, SQUARE, 23, "float[b, 4, s, 8]"), target="onnx"),
    Case(attention, "scaled scores", graph(f"{SCORES} {END}")),
    Case(attention, "heads of windows", graph(f"{SCORES} {END}", WINDOWS, output=WINDOWED)),
    Case(attention, "heads of windows, the standard op", target="onnx",
         model=graph(f"{SCORES} {END}", WINDOWS, 23, output=WINDOWED)),
    Case(attention, "scores divided by a root", graph(f"a = MatMul(q, k) x = Div(a, root) {END}")),
    Case(attention, "the scale on q", graph(f"a = Mul(q, scale) x = MatMul(a, k) {END}")),
    Case(attention, "queries times 0, which stay that", graph(f"a = Mul(q, zero) x = MatMul(a, k) {END}")),
    Case(attention, "its root on q and on k", graph(f"a = Mul(q, quarter) e = Mul(quarter, k) x = MatMul(a, e) {END}")),
    Case(attention, "a number of each head",
         graph(f"a = MatMul(q, k) x = Mul(a, o) {END}", f"{INPUTS}, float[4, 1, 1] o")),
    Case(attention, "a number of each head, and a mask, for the standard op", target="onnx",
         model=graph(f"a = MatMul(q, k) z = Mul(a, o) x = Add(z, m) {END}", f"{INPUTS}, float[4, 1, 1] o", 23)),
    Case(attention, "a mask of one row, as a slice of a buffer leaves it where there is any, as MPT has it",
         graph(f"{BUFFER} {MASKED.replace('Add(z, m)', 'Add(z, bias)')}", f"{INPUTS}, float[4, 1, 64] buffer")),
    Case(attention, "a sink for each head, the standard op", target="onnx",
         model=graph(SUNK, EIGHTS, 23, "float[b, 4, s, 8]")),
    Case(attention, "a sink for each row and no mask, the standard op", target="onnx",
         model=graph(SUNK.replace("z = Mul", "x = Mul").replace("x = Add(z, m)", ""),
                     EIGHTS.replace("float[1, 4, 1, 1] o", "float[4, s, 1] o"), 23, "float[b, 4, s, 8]")),
    Case(masked_attention, "hidden scores beside a sink, the standard op", target="onnx", model=graph(
        SUNK.replace("x = Add(z, m)", "x = Where(c, z, low)"), f"{EIGHTS}, bool[b, 1, s, s] c", 23,
        "float[b, 4, s, 8]")),
    Case(attention, "a sink in half precision, the standard op", target="onnx", model=graph(
        SUNK, half(EIGHTS), 23, "float16[b, 4, s, 8]", HALVES.replace(">", SINK_PLACES))),
    Case(attention, "a sink for each head", graph(SUNK, EIGHTS, output="float[b, 4, s, 8]")),
    Case(attention, "a sink for each head, and the largest score taken off",
         graph(SUNK.replace("Softmax<axis = -1>(w)", "Softmax<axis = -1>(l)").replace(
             " p =", " h = ReduceMax<axes = [-1]>(w) l = Sub(w, h) p ="), EIGHTS, output="float[b, 4, s, 8]")),
    Case(attention, "without a scale", graph(f"x = MatMul(q, k) {END}")),
    Case(attention, "a mask that is added", graph(MASKED)),
    Case(attention, "a mask that is added first", graph(MASKED.replace("Add(z, m)", "Add(m, z)"))),
    Case(attention, "a bias and a mask", graph(f"{SCORES.replace('x =', 'z =')} w = Add(z, o) x = Add(w, m) {END}",
                                             f"{INPUTS}, float[1, 4, s, t] o")),
    Case(attention, "a mask for every query", graph(MASKED, INPUTS.replace("float[b, 1, s, t]", "float[b, 1, 1, t]"))),
    Case(attention, "a mask without batch and heads",
         graph(MASKED, INPUTS.replace("float[b, 1, s, t]", "float[s, t]"))),
    Case(attention, "a mask of one axis", graph(MASKED, INPUTS.replace("float[b, 1, s, t]", "float[t]"))),
    Case(attention, "a mask for each head", graph(MASKED, INPUTS.replace("float[b, 1, s, t]", "float[4, s, t]"))),
    Case(attention, "one head of keys and values for all of queries", graph(MASKED, ONE_HEAD)),
    Case(attention, "one head of keys and values, the standard op", graph(MASKED, ONE_HEAD, 23), target="onnx"),
    Case(masked_attention, "scores chosen by a condition",
         graph(f"{SCORES.replace('x =', 'z =')} x = Where(c, z, low) {END}")),
    Case(masked_attention, "scores chosen by a condition, and a mask behind it",
         graph(f"{SCORES.replace('x =', 'z =')} w = Where(c, z, low) x = Add(w, m) {END}")),
    Case(padded_attention, "later keys hidden as in GPT-2, and padding", graph(
        f"{PADDED} {END}", PADDING)),
    Case(padded_attention, "later keys hidden as in GPT-2, and padding, for the standard op", target="onnx",
         model=graph(f"{PADDED} {END}", PADDING, 23)),
    Case(padded_attention, "padding before the condition", graph(
        f"{PADDED.replace('Where(c, z, few)', 'Add(z, h)').replace('Add(w, h)', 'Where(c, w, few)')} {END}", PADDING)),
    Case(masked_attention, "biased scores hidden by a condition",
         graph(f"{SCORES.replace('x =', 'z =')} w = Add(z, m) x = Where(c, low, w) {END}")),
    Case(masked_attention, "scores hidden by a condition",
         graph(f"{SCORES.replace('x =', 'z =')} x = Where(c, low, z) {END}")),
    Case(masked_attention, "weights of hidden scores that become 0", graph(f"{HIDDEN} {ZEROED}")),
    Case(masked_attention, "biased by distance, and weights of hidden scores that become 0", graph(
        f"{SCORES.replace('x =', 'z =')} e = Gather(bias, d) w = Add(z, e) x = Where(c, low, w) "
        f"{ZEROED.replace('p, zero', 'zero, p')}", f"{INPUTS}, int64[s, t] d",
        constants=CONSTANTS.replace(">", ", float[3] bias = {0.5, -1, 2}>"))),
    Case(masked_attention, "biased by products, and weights of hidden scores that become 0", graph(
        f"{SCORES.replace('x =', 'z =')} e = MatMul(q, f) o = Mul(e, half) w = Add(z, o) x = Where(c, low, w) "
        f"{ZEROED.replace('p, zero', 'zero, p')}", f"{INPUTS}, float[b, 4, 8, t] f")),
    Case(masked_attention, "the number that hides, as NeMo has it",
         graph(f"{SCORES.replace('x =', 'z =')} x = Where(c, z, ten) {END}",
               constants=CONSTANTS.replace(">", ", float ten = {-10000}>"))),
    Case(masked_attention, "queries cut to no fewer rows than the condition has", graph(
        f"{SCORES.replace('q, k', 'o, k').replace('x =', 'z =')} x = Where(c, z, low) {END}".replace(
            "a =", "o = Slice(w, first, most, rows) a =", 1), INPUTS.replace(" q,", " w,"),
        constants=CONSTANTS.replace(">", ", int64[1] most = {64}, int64[1] rows = {2}>"))),
    Case(attention, "a row that is all masked gives zero", graph(GUARDED)),
    Case(attention, "the same by torch's nan_to_num", graph(
        GUARDED.replace("y = MatMul(g, v)", "l = Less(p, zero) f = IsInf(p) lf = And(l, f) g2 = Where(lf, low, g) "
                        "h = Greater(p, zero) hf = And(h, f) g3 = Where(hf, two, g2) y = MatMul(g3, v)"))),
    Case(attention, "a softmax in float32 for halves", graph(WIDE, HALF, output="float16[b, 4, s, 6]")),
    Case(attention, "three axes", graph(f"{SCORES} {END}", THREE, output="float[n, s, 6]")),
    Case(attention, "three axes and a mask", graph(MASKED, THREE, output="float[n, s, 6]")),
    Case(attention, "three axes and a mask for all",
         graph(MASKED, THREE.replace("float[n, s, t] m", "float[s, t] m"), output="float[n, s, 6]")),
    Case(attention, "capped scores, with GroupQueryAttention",
         graph(f"{SCORES.replace('x =', 'z =')} d = Div(z, cap) h = Tanh(d) o = Mul(h, cap) x = Add(o, m) "
               f"{END}", INPUTS.replace("t, 6", "t, 8").replace("t]", "s]").replace(" t,", " s,"),
               output="float[b, 4, s, 8]")),
    Case(attention, "Attention from opset 23 on", graph(MASKED, opset=23), target="onnx"),
    Case(attention, "Attention with capped scores", target="onnx",
         model=graph(f"{SCORES.replace('x =', 'z =')} d = Div(z, cap) h = Tanh(d) o = Mul(h, cap) x = Add(o, m) {END}",
                     opset=23)),
]
NEGATIVES = [
    Case(attention, "a number of each row", why="one number for each head",
         model=graph(f"a = MatMul(q, k) x = Mul(a, o) {END}", f"{INPUTS}, float[4, 1, t] o")),
    Case(attention, "a sink for each row", why="the sinks must be the same in all rows",
         model=graph(SUNK, EIGHTS.replace("float[1, 4, 1, 1] o", "float[1, 4, s, 1] o"), output="float[b, 4, s, 8]")),
    Case(attention, "the first score left out in the place of the sink", why="expected",
         model=graph(SUNK.replace("first, last, last", "one, all, last"), EIGHTS, output="float[b, 4, s, 8]")),
    Case(attention, "capped scores beside sinks, for the standard op", target="onnx", why="cap the scores of the sinks",
         model=graph(SUNK.replace("x = Add(z, m)", "f = Div(z, cap) h = Tanh(f) x = Mul(h, cap)"), EIGHTS, opset=23,
                     output="float[b, 4, s, 8]")),
    Case(attention, "a softmax over the queries", why="axis",
         model=graph(f"{SCORES} {END.replace('axis = -1', 'axis = 2')}")),
    Case(attention, "heads of windows of a free size", why="must have fixed sizes",
         model=graph(f"{SCORES} {END}", INPUTS.replace("[b, 4", "[b, 2, 4"), output="float[b, 2, 4, s, 6]")),
    Case(attention, "heads of windows, with a mask", why="no mask",
         model=graph(MASKED, WINDOWS.replace("float[b, 1, s, t] m", "float[b, 9, 1, 7, 5] m"), output=WINDOWED)),
    Case(attention, "other windows of values", why="the windows of v is 1",
         model=graph(f"{SCORES} {END}", WINDOWS.replace("[b, 9, 4, 5, 6]", "[b, 1, 4, 5, 6]"), output=WINDOWED)),
    Case(attention, "a free number of heads", why="the heads of q is h, not a fixed size",
         model=graph(f"{SCORES} {END}", INPUTS.replace("[b, 4", "[b, h"), output="float[b, h, s, 6]")),
    Case(attention, "one head of keys for all, and several of values", why="different numbers of heads",
         model=graph(f"{SCORES} {END}", INPUTS.replace("float[b, 4, 8, t]", "float[b, 1, 8, t]"))),
    Case(attention, "weights that are asked for too", why="is also read",
         model=graph(f"{SCORES} {END} o = Neg(p)", output="float[b, 4, s, t] o, float[b, 4, s, 6]")),
    Case(masked_attention, "a number that hides nothing", why="too high to hide a score",
         model=graph(f"{SCORES.replace('x =', 'z =')} x = Where(c, z, half) {END}")),
    Case(masked_attention, "weights of hidden scores that become 0, and a mask", why="only by 0",
         model=graph(f"{SCORES.replace('x =', 'z =')} w = Add(z, m) x = Where(c, w, low) {ZEROED}")),
    Case(masked_attention, "weights of hidden scores that become another number", why="only by 0",
         model=graph(f"{HIDDEN} {ZEROED.replace('zero', 'half')}")),
    Case(attention, "a mask for other heads", why="the mask has 2 heads",
         model=graph(MASKED, INPUTS.replace("float[b, 1, s, t] m", "float[b, 2, s, t] m"))),
    Case(attention, "scores hidden by a condition", why="found Where",
         model=graph(f"{SCORES.replace('x =', 'z =')} x = Where(c, low, z) {END}")),
    Case(attention, "a mask of another batch", why="the mask has mb batches, but the queries have b",
         model=graph(MASKED, INPUTS.replace("float[b, 1, s, t] m", "float[mb, 1, s, t] m"))),
    Case(attention, "a mask of another batch, for the standard op", why="the mask has mb batches", target="onnx",
         model=graph(MASKED, INPUTS.replace("float[b, 1, s, t] m", "float[mb, 1, s, t] m"), 23)),
    Case(masked_attention, "a condition of another batch", why="the mask has mb batches",
         model=graph(f"{HIDDEN} {END}", INPUTS.replace("bool[b, 1, s, t] c", "bool[mb, 1, s, t] c"))),
    Case(attention, "a mask of other rows", why="the mask has r rows, but the queries have s",
         model=graph(MASKED, INPUTS.replace("float[b, 1, s, t] m", "float[b, 1, r, t] m"))),
    Case(attention, "a mask as high as it is wide, where there are other keys", why="the mask has w rows, but",
         model=graph(MASKED, INPUTS.replace("float[b, 1, s, t] m", "float[b, 1, w, w] m"))),
    Case(attention, "a mask that is not square, with separate sizes", why="the mask has w rows, but",
         model=graph(MASKED, SQUARE.replace("[1, 1, w, w]", "[1, 1, w, s]"), output="float[b, 4, s, 8]")),
    Case(attention, "three axes and a mask of another batch", why="the mask has mb batches, but the queries have n",
         model=graph(MASKED, THREE.replace("float[n, s, t] m", "float[mb, s, t] m"), output="float[n, s, 6]")),
    Case(attention, "keys of another batch", why="the batch of kt is",
         model=graph(MASKED, INPUTS.replace("float[b, 4, 8, t] k", "float[kb, 4, 8, t] k"))),
    Case(attention, "scores times 0", why="a scale of 0", model=graph(f"a = MatMul(q, k) x = Mul(a, zero) {END}")),
    Case(attention, "scores times 0, for the standard op", why="a scale of 0", target="onnx",
         model=graph(f"a = MatMul(q, k) x = Mul(a, zero) {END}", opset=23)),
    Case(masked_attention, "later keys hidden as in GPT-2, and padding", why="-10000 does not absorb the scores",
         model=graph(f"{PADDED} {END}", PADDING)),
    Case(padded_attention, "a number that hides nothing", why="too high to hide a score",
         model=graph(f"{PADDED.replace('-10000.0', '-100.0')} {END}", PADDING)),
    Case(padded_attention, "a condition of another batch", why="the mask has mb batches",
         model=graph(f"{PADDED} {END}", PADDING.replace("bool[b, 1", "bool[mb, 1"))),
    Case(masked_attention, "a row that both may hide together", why="-65504 does not absorb the scores",
         model=graph(f"{HIDDEN.replace('x =', 'w =')} x = Add(w, m) {END}", half(INPUTS), 17, "float16[b, 4, s, 6]",
                     HALVES)),
    Case(attention, "an opset without Attention", graph(MASKED), target="onnx", why="opset 23"),
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


@pytest.mark.parametrize("scores", ["x = Add(z, m)", "x = Where(c, z, low)"])
def test_a_sink_as_low_as_what_hides_scores_leaves_a_mean(scores):
    """ONNX Runtime's kernel makes zeros of a row of least numbers; sinks that are surely higher cost nothing."""
    inputs, body = f"{EIGHTS}, bool[b, 1, s, s] c", SUNK.replace("x = Add(z, m)", scores)
    fixed = CONSTANTS.replace(">", ", float[1, 4, 1, 1] o = {0.5, -1, 2, 0}>")
    own = graph(body, inputs.replace("float[1, 4, 1, 1] o, ", ""), 23, "float[b, 4, s, 8]", fixed)
    for model, extra in ((graph(body, inputs, 23, "float[b, 4, s, 8]"), {"Equal"}), (own, set())):
        made, report = surgeon.rewrite(model, [attention, masked_attention], target="onnx", check="sites")
        assert report.outcome == "proved"
        assert {node.op_type for node in made.graph.node} & {"Equal", "Attention"} == {"Attention", *extra}


def test_heads_and_scale_are_read_from_the_graph():
    made, _ = surgeon.rewrite(graph(f"a = Mul(q, quarter) e = Mul(quarter, k) x = MatMul(a, e) {END}"), attention)
    found = attributes(made, "MultiHeadAttention")
    assert found["num_heads"] == 4
    assert found["scale"] == pytest.approx(0.5946**2)


@pytest.mark.parametrize("scores", ["x = Mul(a, wide)", "z = Mul(a, wide) x = Add(z, none)"], ids=["plain", "zeros"])
def test_queries_that_were_widened_are_read_as_they_were(scores):
    """Scores in float32 of half precision leave no Cast behind, and zeros that are added to them no other dtype."""
    body = f"d = Cast<to = 1>(q) e = Cast<to = 1>(k) a = MatMul(d, e) {scores} p = Softmax<axis = -1>(x) "
    constants = HALVES.replace(">", ", float wide = {0.25}, float[1, 1, 1, 1] none = {0}>")
    model = graph(f"{body} r = Cast<to = 10>(p) y = MatMul(r, v)", HALF, 17, "float16[b, 4, s, 6]", constants)
    made, report = surgeon.rewrite(model, [constant_folding, attention, consecutive_casts])
    assert "MultiHeadAttention" in {node.op_type for node in made.graph.node}
    assert not [node for node in made.graph.node if node.op_type == "Cast" and node.attribute[0].i == 10]
    assert report.outcome == "proved"


@pytest.mark.parametrize(
    ("target", "is_widened", "scale", "dtype"),
    [
        ("ort", False, 100, "float32"),
        ("ort", True, 100, "float16"),
        ("onnx", False, 100, "float32"),
        ("onnx", True, 0.5, "float16"),
        ("onnx", True, 100, "float32"),
    ],
)
def test_float32_queries_of_half_weights_stay_float32(target, is_widened, scale, dtype):
    """A scale of 100 makes the rounding of queries to half precision visible; queries that were widened have none."""
    heads, ahead = "float[b, 4, s, 8] q, float[b, 4, 8, t] k", ""
    if is_widened:
        heads = "float16[b, 4, s, 8] hq, float16[b, 4, t, 8] hk"
        ahead = "q = Cast<to = 1>(hq) k2 = Cast<to = 1>(hk) k = Transpose<perm = [0, 1, 3, 2]>(k2)"
    body = f"{ahead} a = MatMul(q, k) x = Mul(a, scale) p = Softmax<axis = -1>(x) r = Cast<to = 10>(p) y = MatMul(r, v)"
    inputs, constants = f"{heads}, float16[b, 4, t, 6] v", f"<float scale = {{{scale}}}>"
    model = graph(body, inputs, 23 if target == "onnx" else 17, "float16[b, 4, s, 6]", constants)
    made, report = surgeon.rewrite(model, [attention, consecutive_casts], target=target)
    assert report.outcome == "proved"
    inferred = onnx.shape_inference.infer_shapes(made)
    known = {item.name: item.type.tensor_type.elem_type for item in (*inferred.graph.value_info, *inferred.graph.input)}
    (node,) = (node for node in made.graph.node if node.op_type in ("MultiHeadAttention", "Attention"))
    assert onnx.helper.tensor_dtype_to_np_dtype(known[node.input[0]]).name == dtype


@pytest.mark.parametrize(("target", "opset"), [("ort", 17), ("onnx", 23)])
def test_a_condition_in_bfloat16(target, opset):
    """No kernel here has the dtype, so nothing is proved; that it is written is shown."""
    text = f"a = MatMul(q, k) l = Cast<to = 16>(low) x = Where(c, a, l) {END}"
    constants = CONSTANTS.replace("-3.4028234e38", "-1e30")
    model = graph(text, INPUTS.replace("float[", "bfloat16["), opset, "bfloat16[b, 4, s, 6]", constants)
    made, _ = surgeon.rewrite(model, [constant_folding, masked_attention], target=target, check="none")
    assert {"MultiHeadAttention", "Attention"} & {node.op_type for node in made.graph.node}
