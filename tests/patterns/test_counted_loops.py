"""Loops that count, with a trip limit: what fires and what does not."""

import numpy as np
import onnx
import pytest
from surgeon.patterns.lowering.counted_loops import counted_loops

import surgeon
from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

HEAD = "(float[4] x, int64 k) => (float[4] s, float[t, 4] y)"
LEAVES = "bool go, int64 j, int64 last, float[4] more, float[4] row"
COUNTS = "go = Less(j, last)"
CAST = "a = Cast<to = 1>(j) b = Cast<to = 1>(last) go = Less(a, b)"


def loop(condition=COUNTS, step=1, leaves=LEAVES, start=0, more="", trips=""):
    """A loop that halves a row and keeps each, while a counter is below k."""
    return graph(
        f"""from = Constant<value = int64 {{{start}}}>() first = Less(from, k)
        u, v, s, y = Loop<body = rows (int64 i, bool ran, int64 at, int64 last, float[4] sum) => ({leaves}) {{
            one = Constant<value = int64 {{{step}}}>() j = Add(at, one) {condition} {more}
            half = Constant<value = float {{0.5}}>() more = Mul(sum, half) row = Identity(more)
        }}>({trips}, first, from, k, x)""",
        HEAD,
    )


def reading_outside(step="step", limit="k", more=""):
    """The same loop, which reads its limit and its step from around it."""
    return graph(
        f"""step = Constant<value = int64 {{1}}>() from = Constant<value = int64 {{0}}>() first = Less(from, k) {more}
        v, s, y = Loop<body = rows (int64 i, bool ran, int64 at, float[4] sum) => (bool go, int64 j, float[4] next,
                                                                               float[4] row) {{
            j = Add(at, {step}) go = Less(j, {limit}) half = Constant<value = float {{0.5}}>() next = Mul(sum, half)
            row = Identity(next)
        }}>(, first, from, x)""",
        HEAD,
    )


SMALL = "lot = ReduceMax<keepdims = 0>(sum) most = Constant<value = float {1000.0}>() small = Less(lot, most)"


def reading(place, axis=0, rows="float[r, 4] w"):
    """A loop that adds the next row of a tensor in each step, until it has added as many as the tensor has."""
    return graph(
        f"""from = Constant<value = int64 {{0}}>() first = Constant<value = bool {{1}}>()
        sizes = Shape<start = {axis}, end = {axis + 1}>(w) count = ReduceMax<keepdims = 0>(sizes)
        v, s, y = Loop<body = rows (int64 i, bool ran, int64 at, float[4] sum) => (bool go, int64 j, float[4] more,
                                                                               float[4] row) {{
            one = Constant<value = int64 {{1}}>() j = Add(at, one) row = Gather<axis = {axis}>(w, {place})
            more = Add(sum, row) done = Equal(j, count) go = Not(done)
        }}>(, first, from, x)""",
        f"(float[4] x, {rows}) => (float[4] s, float[t, 4] y)",
    )


# fmt: off
FIRES = [
    Case(counted_loops, "while the next is below the limit", loop(), target="tensorrt"),
    Case(counted_loops, "from another number on", loop(start=1), target="tensorrt"),
    Case(counted_loops, "compared as floats, as TensorFlow writes it", loop(CAST), target="tensorrt"),
    Case(counted_loops, "the limit first", loop("go = Greater(last, j)"), target="tensorrt"),
    Case(counted_loops, "up to the limit itself", loop("go = LessOrEqual(j, last)"), target="tensorrt"),
    Case(counted_loops, "as it was before the step", loop("go = Less(at, last)"), target="tensorrt"),
    Case(counted_loops, "by the number of the iteration", loop("n = Add(one, i) go = Greater(last, n)"),
         target="tensorrt"),
    Case(counted_loops, "and while something else holds", target="tensorrt",
         model=loop(f"{SMALL} below = Less(j, last) go = And(small, below)")),
    Case(counted_loops, "a limit and a step from around it", model=reading_outside(), target="tensorrt"),
    Case(counted_loops, "a limit that is computed around it", target="tensorrt",
         model=reading_outside(limit="most", more="most = Add(k, step)")),
    Case(counted_loops, "a step that is folded around it", target="tensorrt",
         model=reading_outside("other", more="other = Identity(step)")),
    Case(counted_loops, "while there are rows to read", model=reading("i"), target="tensorrt"),
    Case(counted_loops, "while there are columns to read, by a counter", target="tensorrt",
         model=reading("at", 1, "float[4, r] w")),
]
NEGATIVES = [
    Case(counted_loops, "a trip limit is there", loop(trips="k"), target="tensorrt",
         why="no Loop without a trip count"),
    Case(counted_loops, "steps of two", loop(step=2), target="tensorrt", why="no Loop without a trip count"),
    Case(counted_loops, "a step of two from around it", target="tensorrt", why="no Loop without a trip count",
         model=reading_outside("two", more="two = Add(step, step)")),
    Case(counted_loops, "a step that is an input", target="tensorrt", why="no Loop without a trip count",
         model=reading_outside("k")),
    Case(counted_loops, "a limit that moves", target="tensorrt", why="no Loop without a trip count",
         model=loop(leaves=LEAVES.replace("int64 last", "int64 later"), more="later = Sub(last, one)")),
    Case(counted_loops, "for another target", loop(), why="no form for target ort"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_large_constants_of_its_body_come_along():
    """A model that is opened leaves them in the file, and what is written anew holds them."""
    model = loop()
    for value in (*model.graph.input, *model.graph.output):
        if value.name != "k":
            value.type.tensor_type.shape.dim[-1].dim_value = 3000
    body = next(item.g for node in model.graph.node for item in node.attribute if item.name == "body")
    for value in (*body.input, *body.output):
        if value.name in ("sum", "more", "row"):
            value.type.tensor_type.shape.dim[0].dim_value = 3000
    half = next(node for node in body.node if node.output[0] == "half")
    half.attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.full(3000, 0.5, np.float32)))
    made, report = surgeon.rewrite(model, counted_loops, target="tensorrt")
    assert report.outcome == "proved"
    assert made.ByteSize() > 12000
