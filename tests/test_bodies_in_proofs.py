"""What a body reads from around it goes, in a proof, by the name that the proof gave it."""

import pytest

import surgeon
from surgeon.testing import parse

GATHER = "e = Gather<axis = 0>(t, i)"
READS = {
    "in the body": GATHER,
    "in a body of the body": "e = If(more) <then_branch = one () => (float[n, 4] p) { p = Gather<axis = 0>(t, i) }, "
    "else_branch = two () => (float[n, 4] q) { z = Sub(i, i) q = Gather<axis = 0>(t, z) }>",
    "in the body, and a copy in a body of that": f"{GATHER.replace('e', 'd', 1)} e = If(more) <then_branch = one () => "
    "(float[n, 4] p) { p = Neg(d) }, else_branch = two () => (float[n, 4] q) { q = Gather<axis = 0>(t, i) }>",
    "an input of the Loop, too": f"{GATHER.replace('e', 'd', 1)} e = Add(d, h0)",
    "the condition that it begins with": f"{GATHER.replace('e', 'd', 1)} f = Cast<to = 1>(go) e = Mul(d, f)",
}
HANDED_ON = (
    "w = If(more) <then_branch = one () => (float[m, n, 4] p) { p = Neg(t) }, else_branch = two () => "
    "(float[m, n, 4] t) { }> e = Gather<axis = 0>(w, i)"
)
LIMITS = {
    "a size": "u = Squeeze(a, first)",
    "a size that an If hands on": "r = Squeeze(a, first) u = If(c) <then_branch = one () => (int64 o) "
    "{ o = Identity(r) }, else_branch = two () => (int64 q) { q = Add(r, r) }>",
    "a size that a Loop hands on": "r = Squeeze(a, first) u = Loop <body = rest (int64 k, bool p, int64 v) => "
    "(bool o, int64 q) { o = Identity(c) q = Min(v, r) }> (r, c, r)",
}
MODEL = """(bool c, float[n, m, 4] x, float[n, 4] h0) => (float[k, n, 4] y, float[n, 4] h, int64[1] a, int64[1] b)
    <int64[1] first = {{0}}, int64[1] second = {{1}}, int64 start = {{0}}> {{
    t = Transpose<perm = [1, 0, 2]>(x) s = Shape(t) a = Gather(s, first) b = Gather(s, second)
    {limit} go = Less(start, u)
    v, h, y = Loop <body = step (int64 j, bool gone, int64 i, float[n, 4] hh)
        => (bool more, int64 i1, float[n, 4] h1, float[n, 4] out) {{
        one = Constant<value = int64 {{1}}>() i1 = Add(i, one) more = Less(i1, u)
        {read} h1 = Add(hh, e) out = Tanh(h1) }}> ("", go, start, h0) }}"""


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("limit", LIMITS)
def test_a_loop_and_the_sizes_of_what_it_reads(read, limit):
    """Rules for sizes rewrite what the trip limit reads, and the proof has the nodes in front of it twice."""
    text = MODEL.format(limit=LIMITS[limit], read=READS[read])
    rules = ["counted_loops", "shape_of_transpose", "duplicate_sizes"]
    _, report = surgeon.rewrite(parse(text), rules, target="tensorrt")
    assert report.outcome == "proved"
    assert {"counted_loops", "duplicate_sizes"} <= {rule for site in report.sites for rule in site.rules}


def test_a_branch_that_makes_a_tensor_around_it_its_output():
    """ONNX Runtime does not load such a branch, so nothing is proved; others run it."""
    text = MODEL.format(limit=LIMITS["a size"], read=HANDED_ON)
    _, report = surgeon.rewrite(parse(text), ["counted_loops"], target="tensorrt")
    assert report.outcome == "unproved"
