"""Sizes that are told twice: which are read from where they were told first, and which are others."""

import pytest
from surgeon.patterns.duplicates import duplicate_sizes

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.models import ops

HEAD = "(float[n, 4] x, float[n, 5] z) => (float[n, 4] y, float[n, 5] w)"
CONSTANTS = (
    "int64 zero = {0}, int64 columns = {5}, "
    "int64[1] at = {0}, int64[1] one = {1}, int64[1] four = {4}, int64[1] five = {5}"
)
USED = "a = Cast<to = 1>(i) b = Cast<to = 1>(j) y = Add(x, a) w = Add(z, b)"


def model(body, head=HEAD):
    """Two inputs of as many rows, and what becomes of each."""
    return parse(f"{head} <{CONSTANTS}> {{ {body} }}")


FIRES = [
    Case(duplicate_sizes, "the rows of two tensors",
         model(f"s = Shape(x) t = Shape(z) i = Gather(s, zero) j = Gather(t, zero) {USED}")),
    Case(duplicate_sizes, "a part of a shape, and a slice",
         model(f"i = Shape<start = 0, end = 1>(x) t = Shape(z) j = Slice(t, at, one, at) {USED}")),
    Case(duplicate_sizes, "what is computed from them",
         model(f"s = Shape(x) k = Gather(s, zero) i = Mul(k, columns) j = Size(z) {USED}")),
    Case(duplicate_sizes, "the shape of a tensor that nobody cuts",
         model("s = Shape(x) p = Exp(x) t = Shape(p) q = Reshape(p, s) y = Reshape(q, t) w = Neg(z)")),
    Case(duplicate_sizes, "what was told by nodes that went with their only reader",
         model("s = Shape(x) t = Shape(z) u = Slice(t, at, one, at) v = Concat<axis = 0>(u, four) p = Reshape(x, s) "
               "y = Reshape(p, v) e = Exp(z) f = Shape(e) g = Slice(f, at, one, at) h = Concat<axis = 0>(g, five) "
               "w = Reshape(e, h)"), sites=2),
    Case(duplicate_sizes, "for any target",
         model(f"s = Shape(x) t = Shape(z) i = Gather(s, zero) j = Gather(t, zero) {USED}"), target="onnx"),
]
OTHER_ROWS = HEAD.replace("float[n, 5]", "float[m, 5]")
SPARES = [
    Case(duplicate_sizes, "rows of another name", why="no sizes are told twice",
         model=model(f"s = Shape(x) t = Shape(z) i = Gather(s, zero) j = Gather(t, zero) {USED}", OTHER_ROWS)),
    Case(duplicate_sizes, "rows without a name", why="no sizes are told twice",
         model=model(f"s = Shape(x) t = Shape(z) i = Gather(s, zero) j = Gather(t, zero) {USED}",
                     HEAD.replace("[n,", "[?,"))),
    Case(duplicate_sizes, "sizes of another dtype", why="no sizes are told twice",
         model=model(f"s = Shape(x) i = Gather(s, zero) j = Cast<to = 6>(i) {USED}")),
    Case(duplicate_sizes, "a size and a list of it", why="no sizes are told twice",
         model=model(f"s = Shape(x) i = Gather(s, zero) j = Gather(s, at) {USED}")),
    Case(duplicate_sizes, "fixed sizes, which are constants", why="no sizes are told twice",
         model=model(f"s = Shape(x) t = Shape(z) i = Gather(s, zero) j = Gather(t, zero) {USED}",
                     HEAD.replace("[n,", "[3,"))),
    Case(duplicate_sizes, "an output of the graph", why="no sizes are told twice",
         model=model("i = Shape<start = 0, end = 1>(x) y = Expand(x, i) w = Shape<start = 0, end = 1>(z)",
                     "(float[n, 1] x, float[n, 5] z) => (float[n, n] y, int64[1] w)")),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", SPARES, ids=str)
def test_spares(case):
    check_spares(case)


def test_layers_read_one_length():
    """Each puts the shape of its own tensor together; the first tensor tells it to all."""
    layer = """s{0} = Shape({1}) i{0} = Gather(s{0}, zero) u{0} = Unsqueeze(i{0}, at)
        c{0} = Concat<axis = 0>(u{0}, four) e{0} = Exp({1}) r{0} = Reshape(e{0}, c{0}) {2} = Tanh(r{0})"""
    body = "t = Tanh(x) " + " ".join(layer.format(number, f"x{number}", f"x{number + 1}") for number in range(3))
    text = body.replace("(x0)", "(t)").replace("x3", "y") + " w = Neg(z)"
    made, report = surgeon.rewrite(model(text), duplicate_sizes, check="both")
    assert report.outcome == "proved"
    assert [ops(made.graph).count(op) for op in ("Shape", "Gather", "Concat", "Reshape")] == [1, 0, 0, 3]
