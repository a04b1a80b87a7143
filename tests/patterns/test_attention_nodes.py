"""Attention that is one node: what is written as another or in parts, what does not match and why."""

import onnx
import pytest
from surgeon.patterns.attention.attention import attention

import surgeon
from surgeon import CheckOptions
from surgeon.testing import Case, check_fires, check_spares, parse
from tests import sampling

ROWS = "float[b, s, 32] q, float[b, t, 32] k, float[b, t, 24] v, float[b, 1, s, t] m"
HEADS = "float[b, s, 32] q, float[b, 4, t, 8] k, float[b, 4, t, 8] v, float[b, 1, s, t] m"
FOUR = "float[b, 4, s, 8] q, float[b, 4, t, 8] k, float[b, 4, t, 6] v, float[b, 1, s, t] m, bool[b, 1, s, t] c"
SHARED = FOUR.replace("4, t, 8] k", "2, t, 8] k").replace("4, t, 6] v", "2, t, 6] v")
LESS = "float[b, s, 32] q, float[b, s, 16] k, float[b, s, 16] v, float[b, 1, s, s] m"
COUNTS = (
    "h = Shape(k) n = Slice(h, once, two, zero) e = Cast<to = 6>(n) w = Sub(e, one) o = Slice(h, zero, once, zero) "
    "last = Expand(w, o) total = Squeeze(e, zero)"
)
CONSTANTS = (
    "<int64[1] zero = {0}, int64[1] once = {1}, int64[1] two = {2}, int32[1] one = {1}, "
    "float low = {-3.4028234663852886e38}, float none = {0}, float[96] added = {@}>"
).replace("@", ", ".join(str(number / 100) for number in range(96)))
MS = "com.microsoft"
HEAD = "num_heads = 4, scale = 0.35"
MASKED = f"y = {MS}.MultiHeadAttention<{HEAD}>(q, k, v, , , m)"
GROUPED = f"y, pk, pv = {MS}.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, causal = 0@>(q, k, v, , , last, total"
LAYER = f"y = {MS}.Attention<num_heads = 4>(x, weights, added, , , m)"
COUNTED = LAYER.replace("added, , , m", "added, p")
LAYER_INPUTS = "float[b, s, 16] x, float[16, 96] weights, float[b, 1, s, s] m"
WHOLE, PARTS = "float[b, s, 24]", "float[b, 4, s, 6]"


def graph(body, inputs=ROWS, opset=23, output=WHOLE):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {CONSTANTS} {{ {body} }}")


def grouped(more="", rest=", , , , m)"):
    return f"{COUNTS} {GROUPED.replace('@', more)}{rest}"


NODES = [
    ("joined heads", graph(MASKED)),
    ("heads of keys and values", graph(MASKED, HEADS, output="float[b, s, 32]")),
    ("neither scale nor mask", graph(f"y = {MS}.MultiHeadAttention<num_heads = 4>(q, k, v)")),
    (
        "a mask that hides whole rows",
        graph(f"c = Greater(m, none) n = Where(c, low, m) {MASKED.replace(', m', ', n')}"),
    ),
    (
        "no key behind the query",
        graph(
            MASKED.replace("scale", "unidirectional = 1, scale"), ROWS.replace("t, ", "s, ").replace("s, t]", "s, s]")
        ),
    ),
    (
        "biases of the projections",
        graph(MASKED.replace("v, ,", "v, added,"), ROWS.replace("24]", "32]"), output="float[b, s, 32]"),
    ),
    ("which keys count", graph(MASKED.replace(", , , m", ", , p, m"), f"{ROWS}, int32[b, t] p")),
    (
        "how many keys count",
        graph(COUNTED, "float[b, 9, 16] x, float[16, 96] weights, int32[b] p", output="float[b, 9, 32]"),
    ),
    ("shared keys and values", graph(grouped(), LESS, output="float[b, s, 32]")),
    ("shared ones, capped", graph(grouped(", softcap = 2.0"), LESS, output="float[b, s, 32]")),
    ("a layer with its projections", graph(LAYER, LAYER_INPUTS, output="float[b, s, 32]")),
]
STANDARD = [
    ("four axes", graph("y = Attention(q, k, v, m)", FOUR, output=PARTS)),
    ("a condition", graph("y = Attention<scale = 0.5>(q, k, v, c)", FOUR, output=PARTS)),
    ("shared keys and values", graph("y = Attention(q, k, v, m)", SHARED, output=PARTS)),
    ("capped scores", graph("y = Attention<softcap = 2.0>(q, k, v, m)", FOUR, 24, PARTS)),
    (
        "no key behind the query",
        graph("y = Attention<is_causal = 1>(q, k, v)", FOUR.replace("t, ", "s, "), output=PARTS),
    ),
    ("three axes", graph("y = Attention<q_num_heads = 4, kv_num_heads = 4>(q, k, v, m)")),
]
PADDED = f"y = {MS}.MultiHeadAttention<{HEAD}>(q, k, v, , p)"

# fmt: off
FIRES = [
    *(Case(attention, f"{title}, to Attention", model, target="onnx") for title, model in NODES),
    *(Case(attention, f"{title}, to parts", model, target="decomposed") for title, model in NODES),
    *(Case(attention, f"{title}, from Attention to parts", model, target="decomposed") for title, model in STANDARD),
]
NEGATIVES = [
    Case(attention, "an opset without Attention", graph(MASKED, opset=21), target="onnx", why="--opset 23"),
    Case(attention, "beginnings and ends of what counts", target="onnx", why="one number for each sequence",
         model=graph(PADDED, f"{ROWS}, int32[e] p")),
    Case(attention, "a part of the keys alone", target="onnx", why="some rows of the keys are not used",
         model=graph(grouped(rest=")").replace("w = Sub(e, one)", "w = Sub(e, e)"), LESS, output="float[b, s, 32]")),
    Case(attention, "shared keys of the past alone", target="decomposed", why="does not compute hidden scores",
         model=graph(grouped(rest=")").replace("causal = 0", "scale = 0.5"), LESS, output="float[b, s, 32]")),
    Case(attention, "a negative scale", target="decomposed", why="has no square root",
         model=graph(MASKED.replace("scale = 0.35", "scale = -0.35"))),
    Case(attention, "a window of keys", target="decomposed", why="unsupported attributes: local_window_size",
         model=graph(grouped(", local_window_size = 2"), LESS, output="float[b, s, 32]")),
    Case(attention, "Attention whose mask may have fewer columns than there are keys", target="decomposed",
         why="a shorter mask hides the remaining keys",
         model=graph("y = Attention(q, k, v, m)", FOUR.replace("1, s, t] m", "1, s, 1] m"), output=PARTS)),
    Case(attention, "Attention, for ONNX Runtime's own ops", target="contrib", why="not converted to an op",
         model=graph("y = Attention(q, k, v, m)", FOUR, output=PARTS)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize("target", ["onnx", "decomposed"])
def test_how_many_of_any_number_of_keys_count(target):
    """To prove the place takes ten seconds where rows may be long: by default the whole model is compared alone."""
    model = graph(COUNTED, "float[b, s, 16] x, float[16, 96] weights, int32[b] p", output="float[b, s, 32]")
    check, options = "both" if sampling.is_whole() else "model", CheckOptions(proof_time=120)
    _, report = surgeon.rewrite(model, attention, target=target, check=check, options=options)
    assert len(report.sites) == 1
    assert report.outcome == "proved", report.doubts


def test_a_scale_of_zero_is_one():
    """ONNX's Attention takes a scale of 0 as it is; what ONNX Runtime's own take for none is their own scale."""
    node = graph("y = Attention<scale = 0.0>(q, k, v)", FOUR, output=PARTS)
    made, _ = surgeon.rewrite(node, attention, target="decomposed", check="none")
    known = {item.name: onnx.numpy_helper.to_array(item) for item in made.graph.initializer}
    factors = [known[name] for node in made.graph.node if node.op_type == "Mul" for name in node.input if name in known]
    assert len(factors) == 2
    assert not any(factors)
