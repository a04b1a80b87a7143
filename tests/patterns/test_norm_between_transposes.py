"""norm_between_transposes and concat_between_transposes: norms and joins between two transposes."""

import pytest
from surgeon.patterns.layout.norm_between_transposes import concat_between_transposes, norm_between_transposes
from surgeon.patterns.rotary.rotary_3d_input import rotary_3d_input

from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, s, 4, 8] x, float[b, t, 4, 8] z, float[8] w, float[8] o, float[64, 4] c, float[64, 4] n"
SIZES = "int64[1] zero = {0}, int64[3] joined = {0, 0, 32}"
FIRST = "Transpose<perm = [0, 2, 1, 3]>"
ROTARY = "com.microsoft.RotaryEmbedding"


def graph(body, output="float[b, s, 4, 8] y", inputs=INPUTS):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output}) <{SIZES}> {{ {body} }}")


RMS = f"h = {FIRST}(x) r = SimplifiedLayerNormalization<axis = -1, epsilon = 1e-6>(h, w) "
TURNED = f"{RMS} t = {ROTARY}(r, zero, c, n) "
STREAMS = f"h = {FIRST}(x) k = {FIRST}(z) "
BACK = f"j = Concat<axis = 2>(p, q) y = {FIRST}(j)"
BOTH = "float[b, st, 4, 8] y"


HALF = INPUTS.replace("float[b, s, 4, 8] x", "float16[b, s, 4, 8] x")
WIDE = f"a = {FIRST}(x) h = Cast<to = 1>(a) r = SimplifiedLayerNormalization<axis = -1, epsilon = 1e-6>(h, w) "
AGAIN = f"{WIDE} m = Cast<to = 10>(r) v = Cast<to = 1>(m) "


def normed(made, of, op="SimplifiedLayerNormalization", axis=-1):
    return f"{made} = {op}<axis = {axis}>({of}, w) "


# fmt: off
FIRES = [
    Case(norm_between_transposes, "a root mean square, as SD3 has it", graph(f"{RMS} y = {FIRST}(r)")),
    Case(norm_between_transposes, "from the third axis on", graph(f"{RMS} y = {FIRST}(r)".replace("axis = -1",
         "axis = 3"))),
    Case(norm_between_transposes, "a layer norm",
         graph(f"h = {FIRST}(x) r = LayerNormalization(h, w, o) y = {FIRST}(r)")),
    Case(norm_between_transposes, "without a bias",
         graph(f"h = {FIRST}(x) r = LayerNormalization(h, w) y = {FIRST}(r)")),
    Case(norm_between_transposes, "a rotary embedding behind it, as Gemma 3 has it", graph(f"{TURNED} y = {FIRST}(t)")),
    Case([norm_between_transposes, rotary_3d_input], "which takes joined heads then", graph(
        f"{TURNED} f = {FIRST}(t) y = Reshape(f, joined)", "float[b, s, 32] y")),
    Case(norm_between_transposes, "half precision in float32", graph(
        f"{WIDE} k = Cast<to = 10>(r) y = {FIRST}(k)", "float16[b, s, 4, 8] y", HALF)),
    Case(norm_between_transposes, "a norm and a rotary embedding in float32", graph(
        f"{WIDE} t = {ROTARY}(r, zero, c, n) k = Cast<to = 10>(t) y = {FIRST}(k)", "float16[b, s, 4, 8] y", HALF)),
    Case(norm_between_transposes, "each in float32", graph(
        f"{AGAIN} t = {ROTARY}(v, zero, c, n) k = Cast<to = 10>(t) y = {FIRST}(k)", "float16[b, s, 4, 8] y", HALF)),
    Case(concat_between_transposes, "queries of two streams", graph(
        f"{STREAMS} j = Concat<axis = 2>(h, k) y = {FIRST}(j)", BOTH)),
    Case(concat_between_transposes, "normed, as SD3 has them", graph(STREAMS + normed("p", "h") + normed("q",
         "k") + BACK, BOTH)),
    Case(concat_between_transposes, "one of them normed", graph(
        STREAMS + normed("p", "h", "LayerNormalization") + f"j = Concat<axis = 2>(p, k) y = {FIRST}(j)", BOTH)),
]
NEGATIVES = [
    Case(concat_between_transposes, "normed in two ways", why="norms of two kinds", model=graph(
        STREAMS + normed("p", "h") + normed("q", "k", "LayerNormalization") + BACK, BOTH)),
    Case(concat_between_transposes, "beside each other, not behind", why="expected axis = 2", model=graph(
        f"{STREAMS.replace('(z)', '(x)')} j = Concat<axis = 1>(h, k) y = {FIRST}(j)", "float[b, s, 8, 8] y")),
    Case(concat_between_transposes, "a norm over rows too", why="", model=graph(
        STREAMS + normed("p", "h", "LayerNormalization", 1) + normed("q", "k", "LayerNormalization") + BACK, BOTH)),
    Case(norm_between_transposes, "over rows and columns", why="only the columns of a head", model=graph(
        f"h = {FIRST}(x) r = LayerNormalization<axis = 1>(h, w) y = {FIRST}(r)")),
    Case(norm_between_transposes, "a norm in float32 that others read", why="is also read", model=graph(
        f"{WIDE} k = Cast<to = 10>(r) y = {FIRST}(k) u = Neg(r)", "float16[b, s, 4, 8] y, float[b, 4, s, 8] u", HALF)),
    Case(norm_between_transposes, "a norm that others read", why="is also read", model=graph(
        f"{RMS} y = {FIRST}(r) z = Neg(r)", "float[b, s, 4, 8] y, float[b, 4, s, 8] z")),
    Case(norm_between_transposes, "other axes moved back", why="expected perm", model=graph(
        f"{RMS} y = Transpose<perm = [0, 1, 3, 2]>(r)", "float[b, 4, 8, s] y")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
