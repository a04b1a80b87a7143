"""Proofs of float64 models, for which no wider reference exists."""

from typing import Any

import pytest
from onnx import helper

from surgeon import Graph, Tensor, rewrite, rule
from surgeon.ops.schemas import schema
from surgeon.ops.traits.dtype_traits import QUANTIZING
from surgeon.runtime.sessions.float64_reference import _stays_narrow
from surgeon.testing import parse
from tests.mutation.building import is_original

MODEL = '<ir_version: 10, opset_import: ["" : 18]> g (double[n] x, double[n] z) => (double[n] y) '


def outcome(text: str, made: Any) -> str:
    """What became of the one site."""
    _, report = rewrite(parse(MODEL + text), made, keep_going=True)
    (site,) = (*report.sites, *report.rolled_back)
    return site.outcome


def test_a_quotient_is_finite_where_one_over_its_divisor_is_not() -> None:
    """1e-310 times 1 / 1e-310: in single precision the reference says that it is one."""

    def by_reciprocal(g: Graph, x: Tensor, z: Tensor) -> Any:
        return g.mul(x, g.reciprocal(z))

    @rule(patterns=[by_reciprocal], target="any", conditions=[is_original])
    def quotient(g: Graph, x: Tensor, z: Tensor) -> Any:
        """Divide."""
        return g.div(x, z)

    assert outcome("{ r = Reciprocal(z) y = Mul(x, r) }", quotient) == "proved"


def test_an_infinity_where_the_quotient_is_finite_is_wrong() -> None:
    def quotient(g: Graph, x: Tensor, z: Tensor) -> Any:
        return g.div(x, z)

    @rule(patterns=[quotient], target="any", conditions=[is_original])
    def by_reciprocal(g: Graph, x: Tensor, z: Tensor) -> Any:
        """Multiply by one over it."""
        return g.mul(x, g.reciprocal(z))

    assert outcome("{ y = Div(x, z) }", by_reciprocal) == "failed"


@pytest.mark.parametrize("name", sorted(QUANTIZING))
def test_operators_that_round_by_design_are_known_by_their_domain(name: str) -> None:
    """An operator of another domain may have the same name, and compute in any dtype."""
    domain, _, op = name.rpartition("::")
    assert schema(domain, op) is not None
    assert _stays_narrow(helper.make_node(op, ["x"], ["y"], domain=domain))
    assert not _stays_narrow(helper.make_node(op, ["x"], ["y"], domain="acme"))
