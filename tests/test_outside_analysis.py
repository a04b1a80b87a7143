"""The framework for analyses serves code that the engine does not know."""

from pathlib import Path

from surgeon.testing import parse
from tests.outside import analysis

HEAD = '<ir_version: 8, opset_import: ["" : 18, "local" : 1]>'
TWICE = '<domain: "local", opset_import: ["" : 18]> twice (a, b) => (c, d) { c = Add (a, a) d = Neg (b) }'
LOOP = """g (float[2] x, float[2] y, float[2] z, int64 n) => (float[2] u, float[2] v) <bool go = {1}> {
    u, v = Loop(n, go, x, y) <body = step (int64 i, bool more, float[2] a, float[2] b)
        => (bool again, float[2] next_a, float[2] next_b) {
            again = Identity(more)  next_a = Mul(b, z)  next_b = Neg(b) }> }"""


def test_what_a_loop_carries_needs_all_that_any_iteration_reads():
    """`a` becomes `b · z`, and `b` depends on `b` only."""
    found = analysis.needed_inputs(parse(f"{HEAD} {LOOP}"))
    assert found == {"u": {"x", "y", "z"}, "v": {"y"}}


def test_calls_of_one_function_are_kept_apart():
    text = "g (float[2] x, float[2] y, float[2] z) => (float[2] u, float[2] v, float[2] w) {"
    made = parse(f"{HEAD} {text} u, r = local.twice(x, y) v, w = local.twice(z, r) }} {TWICE}")
    assert analysis.needed_inputs(made) == {"u": {"x"}, "v": {"z"}, "w": {"y"}}
    assert analysis.nodes_between(made, "y", "w") == {"local::twice", "Neg"}


def test_branches_and_shapes():
    made = parse(
        f"{HEAD} g (float[n] x, float[n] y, bool c) => (float[n] u, int64[1] s) {{ s = Shape(y) u = If(c) <then_branch "
        "= one () => (float[n] p) { p = Neg(x) }, else_branch = two () => (float[n] q) { q = Add(x, x) }> }"
    )
    assert analysis.needed_inputs(made) == {"u": {"x"}, "s": set()}
    assert analysis.nodes_between(made, "x", "u") == {"If", "Neg", "Add"}


def test_it_is_short_and_stands_outside():
    """A new analysis needs no change of the engine, and less than a page."""
    source = Path(analysis.__file__).read_text(encoding="utf-8")
    assert len(source.splitlines()) < 60
    engine = Path(analysis.__file__).parents[2] / "surgeon"
    assert not any("NeededInputs" in path.read_text(encoding="utf-8") for path in engine.rglob("*.py"))
