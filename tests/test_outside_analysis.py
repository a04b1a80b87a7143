"""The framework for analyses serves code that the engine does not know."""

from pathlib import Path

from surgeon.ir.edges import Tensor
from surgeon.ir.index import Index
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


def chain(length):
    """A chain of that many nodes, and the last tensor."""
    nodes = " ".join(f"t{place + 1} = Neg(t{place})" for place in range(length))
    return Index.over(parse(f"{HEAD} g (float[2] t0) => (float[2] t{length}) {{ {nodes} }}")), f"t{length}"


class Counted(analysis.NeededInputs):
    """The analysis, with the number of equations that it solves."""

    def __init__(self, index):
        super().__init__(index)
        self.solved = 0

    def equation(self, tensor, fact):
        self.solved += 1
        return super().equation(tensor, fact)


def test_a_long_chain_is_solved_twice_and_once_only():
    """Each tensor waits for the one before it, and what is known is not solved again."""
    index, last = chain(3000)
    needed = Counted(index)
    assert needed[Tensor(index.main, last)] == {"t0"}
    assert needed.solved == 2 * 3000 + 1
    assert needed[Tensor(index.main, "t1500")] == {"t0"}
    assert needed.solved == 2 * 3000 + 1


def test_beyond_the_limit_is_what_the_analysis_says():
    index, last = chain(50)
    needed = Counted(index)
    needed._most, needed._beyond = 10, frozenset(("anything",))
    assert needed[Tensor(index.main, last)] == {"anything"}
    assert len(needed.path([Tensor(index.main, last)], bool)) == 10
