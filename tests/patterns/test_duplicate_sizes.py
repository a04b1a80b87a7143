"""Sizes that are told twice: which are read from where they were told first, and which are others."""

import pytest
from surgeon.patterns.cleanup.duplicates import duplicate_sizes

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.models import ops

HEAD = "(float[n, 4] x) => (float[n, 4] y, float[n, 8] w)"
TWO_INPUTS = "(float[n, 4] x, float[n, 8] z) => (float[n, 4] y, float[n, 8] w)"
CONSTANTS = (
    "int64 zero = {0}, int64 columns = {8}, int64 turns = {3}, "
    "int64[1] at = {0}, int64[1] one = {1}, int64[1] four = {4}, int64[1] eight = {8}"
)
DOUBLED = "z = Concat<axis = 1>(x, x)"
ROWS = "s = Shape(x) t = Shape(z) i = Gather(s, zero) j = Gather(t, zero)"
USED = "a = Cast<to = 1>(i) b = Cast<to = 1>(j) y = Add(x, a) w = Add(z, b)"
NONE = "no size is computed twice"


def model(body, head=HEAD, ranges=None):
    """Two tensors of as many rows, and what becomes of each; with a note of the dimensions that torch found free."""
    made = parse(f"{head} <{CONSTANTS}> {{ {body} }}")
    if ranges is not None:
        made.graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.range_constraints", value=ranges)
    return made


FIRES = [
    Case(duplicate_sizes, "the rows of two tensors", model(f"{DOUBLED} {ROWS} {USED}")),
    Case(duplicate_sizes, "a part of a shape, and a slice",
         model(f"{DOUBLED} i = Shape<start = 0, end = 1>(x) t = Shape(z) j = Slice(t, at, one, at) {USED}")),
    Case(duplicate_sizes, "what is computed from them",
         model(f"{DOUBLED} s = Shape(x) k = Gather(s, zero) i = Mul(k, columns) j = Size(z) {USED}")),
    Case(duplicate_sizes, "the shape of a tensor that nobody cuts",
         model(f"{DOUBLED} s = Shape(x) p = Exp(x) t = Shape(p) q = Reshape(p, s) y = Reshape(q, t) w = Neg(z)")),
    Case(duplicate_sizes, "what was told by a node that goes with its only reader",
         model(f"{DOUBLED} s = Shape(x) t = Shape(z) u = Slice(t, at, one, at) v = Concat<axis = 0>(u, four) "
               "p = Reshape(x, s) y = Reshape(p, v) e = Shape(p) i = Slice(e, at, one, at) o = Sin(p) q = Shape(o) "
               "j = Slice(q, at, one, at) a = Cast<to = 1>(i) b = Cast<to = 1>(j) c = Sub(a, b) w = Add(z, c)"),
         sites=3),
    Case(duplicate_sizes, "for any target", model(f"{DOUBLED} {ROWS} {USED}"), target="onnx"),
    Case(duplicate_sizes, "two inputs whose rows torch holds to be as many",
         model(f"{ROWS} {USED}", TWO_INPUTS, ranges="{s77: VR[0, int_oo]}")),
]
NEGATIVES = [
    Case(duplicate_sizes, "two inputs, whose rows somebody called the same", why=NONE,
         model=model(f"{ROWS} {USED}", TWO_INPUTS)),
    Case(duplicate_sizes, "two inputs, whose rows torch found to be two sizes of one name", why=NONE,
         model=model(f"{ROWS} {USED}", TWO_INPUTS, ranges="{s77: VR[0, int_oo], s68: VR[0, int_oo]}")),
    Case(duplicate_sizes, "two inputs, put beside one that torch knew of", why=NONE,
         model=model(f"{ROWS} {USED}", TWO_INPUTS.replace("(float[n, 4] x", "(float[m, 4] c, float[n, 4] x", 1),
                     ranges="{s77: VR[0, int_oo]}")),
    Case(duplicate_sizes, "two inputs, whose rows have names", why=NONE,
         model=model(f"{ROWS} {USED}", TWO_INPUTS.replace("[n, 8]", "[m, 8]"), ranges="{s7: VR[0, 9], s8: VR[0, 9]}")),
    Case(duplicate_sizes, "sizes of another dtype", why=NONE,
         model=model(f"{DOUBLED} s = Shape(x) i = Gather(s, zero) j = Cast<to = 6>(i) {USED}")),
    Case(duplicate_sizes, "a size and a list of it", why=NONE,
         model=model(f"{DOUBLED} s = Shape(x) i = Gather(s, zero) j = Gather(s, at) {USED}")),
    Case(duplicate_sizes, "fixed sizes, which are constants", why=NONE,
         model=model(f"{DOUBLED} {ROWS} {USED}", HEAD.replace("[n,", "[3,"))),
    Case(duplicate_sizes, "an output of the graph", why=NONE,
         model=model("i = Shape<start = 0, end = 1>(x) y = Expand(x, i) e = Exp(x) w = Shape<start = 0, end = 1>(e)",
                     "(float[n, 1] x) => (float[n, n] y, int64[1] w)")),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_layers_read_one_length():
    """Each puts the shape of its own tensor together; the first tensor tells it to all."""
    layer = """s{0} = Shape({1}) i{0} = Gather(s{0}, zero) u{0} = Unsqueeze(i{0}, at)
        c{0} = Concat<axis = 0>(u{0}, four) e{0} = Exp({1}) r{0} = Reshape(e{0}, c{0}) {2} = Tanh(r{0})"""
    body = "t = Tanh(x) " + " ".join(layer.format(number, f"x{number}", f"x{number + 1}") for number in range(3))
    text = body.replace("(x0)", "(t)").replace("x3", "y") + f" {DOUBLED} w = Neg(z)"
    made, report = surgeon.rewrite(model(text), duplicate_sizes, check="both")
    assert report.outcome == "proved"
    assert [ops(made.graph).count(op) for op in ("Shape", "Gather", "Concat", "Reshape")] == [1, 0, 1, 3]


@pytest.mark.parametrize(
    "body",
    [
        """z, u = Loop(turns, , d) <body = b (int64 i, bool go, float[a1, a2] v)
            => (bool go2, float[a3, a4] r, float[a5] f)
            { go2 = Identity(go) r = Tanh(v) f = ReduceMax<axes = [0], keepdims = 0>(r) }>""",
        """c, z = Scan<num_scan_inputs = 1, body = b (float[a1, a2] v, float[a3] u) => (float[a4, a5] r, float[a6] f)
            { r = Add(v, u) f = Neg(u) }>(d, d)""",
    ],
    ids=["Loop", "Scan"],
)  # fmt: skip
def test_sizes_behind_a_body_that_states_new_names_are_proved(body):
    """The proof knows of the sizes what the rule knows of them."""
    _, report = surgeon.rewrite(model(f"d = Concat<axis = 1>(x, x) {body} {ROWS} {USED}"), duplicate_sizes)
    assert report.outcome == "proved"
