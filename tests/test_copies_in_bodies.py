"""A tensor and its copy that a body reads are one tensor to a proof, wherever the copy is made."""

import pytest

import surgeon
from surgeon.testing import parse

COPIES = ("Mul(v, one)", "Add(zero, v)", "Sub(v, zero)", "Div(v, one)", "Max(v)", "Identity(v)", "Cast<to = 1>(v)")
IF = """y = If(c) <then_branch = t () => (float[n, 7] a) {{ a = Tanh(v) }},
    else_branch = e () => (float[n, 7] w) {{ {inside} q = Sigmoid({one}) w = Mul({other}, q) }}>"""
LOOP = """y, s = Loop(turns, , v) <body = b (int64 i, bool go, float[n, 7] u)
    => (bool go2, float[n, 7] p, float[n, 7] w)
    {{ go2 = Identity(go) p = Tanh(u) {inside} q = Sigmoid({one}) w = Mul({other}, q) }}>"""
NESTED = (
    f"y = If(c) <then_branch = o () => (float[n, 7] d) {{{{ d = If(c) {IF[9:]} }}}}, "
    "else_branch = r () => (float[n, 7] f) {{ f = Neg(v) }}>"
)
CONSTANTS = "float one = {1}, float zero = {0}, int64 turns = {3}"


def rewritten(body, of="Neg(x)"):
    """The report of a rewrite where one of two operands of a SiLU is a copy of the other."""
    text = f"(bool c, float[n, 7] x) => (float[n, 7] y) <{CONSTANTS}> {{ v = {of} {body} }}"
    _, report = surgeon.rewrite(parse(text), ["no_ops", "duplicate_nodes", "silu"])
    return report


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_that_the_body_makes(copy):
    report = rewritten(IF.format(inside=f"z = {copy}", one="v", other="z"))
    assert report.outcome == "proved"
    assert "silu" in {rule for site in report.sites for rule in site.rules}


@pytest.mark.parametrize("body", [IF, LOOP, NESTED], ids=["If", "Loop", "an If in an If"])
@pytest.mark.parametrize("outside", ["z = Mul(v, one)", "z = Neg(x)", ""], ids=["a copy", "the same again", "inside"])
def test_bodies(body, outside):
    inside = "" if outside else "z = Add(v, zero)"
    report = rewritten(f"{outside} {body.format(inside=inside, one='z', other='v')}")
    assert report.outcome == "proved"
    assert "silu" in {rule for site in report.sites for rule in site.rules}


def halved(g, x):
    """What the wrong rule below takes for a copy."""
    return g.mul(x, 0.5)


@surgeon.rule(patterns=[halved], target="any")
def not_a_copy(g, x):
    """Wrong on purpose."""
    return x


def test_a_rule_that_hands_on_another_tensor_takes_with_it_what_rests_on_that():
    """A proof may take the two for one only where the other site is proved."""
    body = IF.format(inside="z = Mul(v, half)", one="v", other="z")
    text = f"(bool c, float[n, 7] x) => (float[n, 7] y) <{CONSTANTS}, float half = {{0.5}}> {{ v = Neg(x) {body} }}"
    with pytest.raises(surgeon.CheckFailed) as failed:
        surgeon.rewrite(parse(text), [not_a_copy, "silu"])
    assert not [site for site in failed.value.report.sites if site.proof.outcome == "proved"]
