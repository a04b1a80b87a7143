"""The sign of a zero matters where a later node divides by it."""

from typing import Any

import numpy as np
import pytest

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.numerics.tensor_judge import judge_tensor
from surgeon.testing import parse

HEAD = '<ir_version: 10, opset_import: ["" : 18]> g'


@rule(patterns=[lambda g, x: g.neg(x)], target="any")
def from_zero(g: Graph, x: Tensor) -> Any:
    """Take it from zero, which makes 0 of 0, and not -0."""
    return g.sub(0.0, x)


def outcomes(text: str) -> dict[str, str]:
    """What became of each site, by what it makes."""
    _, report = surgeon.rewrite(parse(f"{HEAD} {text}"), from_zero, keep_going=True)
    return {site.replaced[-1].outputs[0]: site.outcome for site in (*report.sites, *report.rolled_back)}


@pytest.mark.parametrize(
    "text",
    [
        "(float[n] x) => (float[n] y) { a = Neg(x) y = Reciprocal(a) }",
        "(float[n] x, float[n] z) => (float[n] y) { a = Neg(x) y = Div(z, a) }",
        "(float[n, m] x) => (float[m, n] y) { a = Neg(x) b = Transpose(a) y = Reciprocal(b) }",
        "(float16[n] x, float16[n] z) => (float16[n] y) { a = Neg(x) y = Div(z, a) }",
        "(float[n] x, bool c) => (float[n] y) { a = Neg(x) "
        "y = If(c) <then_branch = yes () => (float[n] b) { b = Reciprocal(a) }, "
        "else_branch = no () => (float[n] d) { d = Sin(a) }> }",
    ],
)
def test_a_zero_that_something_divides_by_keeps_its_sign(text: str) -> None:
    assert outcomes(text) == {"a": "failed"}


@pytest.mark.parametrize(
    "text",
    [
        "(float[n] x, float[n] z) => (float[n] y) { a = Neg(x) y = Add(z, a) }",
        "(float[n] x, float[n] z) => (float[n] y) { a = Neg(x) y = Div(a, z) }",
        "(float[n] x) => (float[n] a) { a = Neg(x) }",
    ],
)
def test_any_other_zero_need_not(text: str) -> None:
    assert outcomes(text) == {"a": "proved"}


def test_a_site_shares_no_proof_with_those_that_nothing_divides_by() -> None:
    """Of many that are read alike the proof of one is that of all."""
    layers = [f"p{at} = Sin(x{at}) a{at} = Neg(p{at}) x{at + 1} = Add(a{at}, p{at})" for at in range(40)]
    last = layers.pop().replace("x40 = Add(a39, p39)", "y = Reciprocal(a39)")
    found = outcomes(f"(float[n, 4] x0) => (float[n, 4] y) {{ {' '.join(layers)} {last} }}")
    assert found == {**dict.fromkeys((f"a{at}" for at in range(39)), "proved"), "a39": "failed"}


def test_a_zero_in_which_a_sum_began_has_the_sign_that_its_kernel_gives_it() -> None:
    """A kernel that adds products to a zero of its own makes 0 of -0."""

    def by_one(g: Graph, x: Tensor) -> Any:
        return g.conv(x, np.ones((1, 1, 1), np.float32))

    @rule(patterns=[by_one], target="any")
    def as_product(g: Graph, x: Tensor) -> Any:
        """Multiply by one, which leaves zeros as they are."""
        return g.mul(x, 1.0)

    text = "(float[n, 1, 2] x) => (float[n, 1, 2] y) <float[1, 1, 1] w = {1}> { a = Conv(x, w) y = Reciprocal(a) }"
    _, report = surgeon.rewrite(parse(f"{HEAD} {text}"), as_product, keep_going=True)
    assert [site.outcome for site in report.sites] == ["proved"]


def test_zeros_are_distinguished_on_request() -> None:
    zeros = np.array([0.0, -0.0, 1.0], np.float32)
    turned = np.array([0.0, 0.0, 1.0], np.float32)
    has_signs = JudgeSettings(zeros.dtype, signed_zeros=True)
    assert judge_tensor("y", zeros, turned, zeros.astype(np.float64), 0.0).ok
    error = judge_tensor("y", zeros, turned, zeros.astype(np.float64), 0.0, has_signs)
    assert not error.ok
    assert error.why == "is 0 instead of -0 (1 of 3 elements), and a later node divides by it"
    doubtful = judge_tensor("y", zeros, turned, turned.astype(np.float64), 0.0, has_signs)
    assert doubtful.ok, "the original itself has another sign than the reference"
