"""CastLike of a known dtype: what becomes a Cast, and what does not."""

import pytest
from surgeon.patterns.cleanup.cast_like import known_cast_like

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.models import ops


def graph(body, function="", opset=18):
    header = f'<ir_version: 9, opset_import: ["" : {opset}, "my" : 1]> g'
    ends = "(float[n, 4] x, float16[n, 4] h) => (float[n, 4] y)"
    return parse(f"{header} {ends} <int64 three = {{3}}> {{ {body} }} {function}")


SCALE = '<domain: "my", opset_import: ["" : 18]> scale (a, k) => (b) { c = CastLike(k, a) b = Mul(a, c) }'
# fmt: off
FIRES = [
    Case(known_cast_like, "an integer constant", graph("k = CastLike(three, x) y = Mul(x, k)")),
    Case(known_cast_like, "a tensor in half precision", graph("a = Relu(h) y = CastLike(a, x)")),
]
NEGATIVES = [
    Case(known_cast_like, "an unknown dtype", why="the dtype is unknown",
         model=graph("u = my.unknown(x) a = CastLike(three, u) y = my.unknown(a)")),
    Case(known_cast_like, "in a function, which may be called with another dtype", why="dtype is unknown",
         model=graph("a = my.scale(h, three) b = Cast<to = 1>(a) c = my.scale(x, three) y = Add(b, c)", SCALE)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_a_cast_constant_is_folded():
    """So a pattern finds the number: here the halves of tanh's approximation of GELU."""
    body = (
        "c3 = CastLike(three, x) p = Pow(x, c3) q = Mul(p, k) s = Add(x, q) t = Mul(s, r) u = Tanh(t) v = Add(u, one) "
        "w = Mul(x, v) y = Mul(w, half)"
    )
    model = graph(body)
    for name, value in (("k", 0.044715), ("r", 0.7978845608), ("one", 1.0), ("half", 0.5)):
        model.graph.initializer.add(name=name, data_type=1, float_data=[value])
    after, report = surgeon.rewrite(model, "ort")
    assert report.proved
    assert len(ops(after.graph)) == 1
