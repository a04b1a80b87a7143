"""Group normalisation with a SiLU behind it: what is fused, what does not match and why."""

import pytest
from surgeon.patterns.norms.group_norm import group_norm
from surgeon.patterns.norms.group_norm_silu import group_norm_silu

import surgeon
from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.test_group_norm import BY_HAND, HAND, HEAD, OF_ORT, SCALED, VECTORS, graph

GATE = " t = Sigmoid(z) y = Mul(z, t)"
SILU = SCALED.replace("y = ", "z = ") + GATE
ONE_NODE = "z = GroupNormalization<num_groups = 3>(x, scale, bias)"
FUSED = OF_ORT.replace("activation = 0", "activation = 1")

# fmt: off
FIRES = [
    Case(group_norm_silu, "both exporters: around an InstanceNormalization", graph(SILU), ep="cuda", check=False),
    Case(group_norm_silu, "operands swapped", graph(SILU.replace("Mul(z, t)", "Mul(t, z)")), ep="cuda", check=False),
    Case(group_norm_silu, "opset 14", graph(SILU, opset=14), ep="cuda", check=False),
    Case(group_norm_silu, "three axes", ep="cuda", check=False,
         model=graph(SILU, HEAD.replace("n, 6, h, w", "n, 6, w"), scale="float[6, 1] scale = {1, 2, 3, 4, 5, 6}",
                     bias="float[6, 1] bias = {1, 2, 3, 4, 5, 6}")),
    Case(group_norm_silu, "by hand", graph(BY_HAND.replace("y = ", "z = ") + GATE, **HAND), ep="cuda", check=False),
    Case(group_norm_silu, "behind GroupNormalization", graph(ONE_NODE + GATE, **VECTORS), ep="cuda", check=False),
    Case(group_norm_silu, "behind GroupNormalization, as QuickGelu", ep="cuda", check=False,
         model=graph(ONE_NODE + " y = com.microsoft.QuickGelu<alpha = 1.0>(z)", **VECTORS)),
    Case(group_norm_silu, "behind com.microsoft::GroupNorm", ep="cuda", check=False,
         model=graph(OF_ORT.replace("y = ", "z = ") + GATE, **VECTORS)),
    Case([group_norm, group_norm_silu], "behind what the rule group_norm wrote", graph(SILU), ep="cuda", check=False),
    Case(group_norm_silu, "back to primitives", target="decomposed", check=False,
         model=graph(FUSED, HEAD.replace("h, w", "2, 3"), **VECTORS)),
]
NEGATIVES = [
    Case(group_norm_silu, "a CPU has no kernel", why="no kernel for com.microsoft::GroupNorm", model=graph(SILU)),
    Case(group_norm_silu, "GroupNormalization runs on a CPU and stays", why="no kernel for com.microsoft::GroupNorm",
         model=graph(ONE_NODE + GATE, **VECTORS)),
    Case(group_norm_silu, "the gate is another tensor", why="", ep="cuda",
         model=graph(SILU.replace("Sigmoid(z)", "Sigmoid(x)"))),
    Case(group_norm_silu, "what is normalised is used elsewhere", why="is also read by", ep="cuda",
         model=graph(SILU + " u = Neg(z)", HEAD.replace("y)", "y, float[n, 6, h, w] u)"))),
    Case(group_norm_silu, "a QuickGELU", why="alpha", ep="cuda",
         model=graph(ONE_NODE + " y = com.microsoft.QuickGelu<alpha = 1.702>(z)", **VECTORS)),
    Case(group_norm_silu, "the node has an activation already", why="activation", ep="cuda",
         model=graph(FUSED.replace("y = ", "z = ") + GATE, **VECTORS)),
    Case(group_norm_silu, "an odd number of channels in a group", why="an even number of channels", ep="cuda",
         model=graph(SILU, one="float[2] one = {1, 1}", zero="float[2] zero = {0, 0}",
                     split="int64[3] split = {0, 2, -1}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The rule fires, nothing else changes, and a second run finds nothing."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """No byte changes, and the report says why."""
    check_spares(case)


@pytest.mark.parametrize("case", FIRES[:-1], ids=str)
def test_is_proved_by_formula(case):
    """A CPU has no kernel for the node, so surgeon's formula of it stands in, with the activation."""
    _, report = surgeon.rewrite(case.model, list(_rules(case)), ep="cuda", check="sites")
    assert [site.proof.outcome.value for site in report.sites] == ["proved"] * case.sites
    assert all("formula of GroupNorm" in site.proof.oracle for site in report.sites)


def _rules(case):
    return case.rules if isinstance(case.rules, list) else [case.rules]


def test_it_runs_before_the_silu():
    """In the group `ort` the SiLU is left for this rule."""
    made, report = surgeon.rewrite(graph(SILU), "ort", ep="cuda", check="none")
    assert [node.op_type for node in made.graph.node] == ["Transpose", "GroupNorm", "Transpose"]
    assert [site.rule for site in report.sites] == ["group_norm_silu"]
