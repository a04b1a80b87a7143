"""Equivalent sites: one is proved, and its proof counts for the others where possible."""

import pytest

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.pipeline.rewriting import site_regions
from surgeon.testing import parse


@rule(patterns=[lambda g, x: g.neg(g.neg(g.relu(x)))])
def once(g: Graph, x: Tensor) -> Tensor:
    return g.relu(x)


@rule(patterns=[lambda g, x: g.neg(g.neg(g.relu(x)))])
def never(g: Graph, x: Tensor) -> Tensor:
    """Right for nothing that is negative."""
    return g.abs(x)


@pytest.fixture
def cut_out(monkeypatch):
    """The roots of the sites that are cut out, in order."""
    roots, region = [], site_regions._region
    monkeypatch.setattr(site_regions, "_region", lambda site, *rest: roots.append(site.root) or region(site, *rest))
    return roots


LAYER = "r{i} = Relu({x}) n{i} = Neg(r{i}) y{i} = Neg(n{i})"


def stack(layers, between="Sin", head="float[n, 4]", inputs=()):
    """Layers, one on the other, with a node between each two."""
    body, x = [], "z"
    for i in range(layers):
        body.append(LAYER.format(i=i, x=inputs[i] if inputs else x) + f" s{i} = {between}(y{i})")
        x = f"s{i}"
    outputs = ", ".join(f"{head} s{i}" for i in range(layers))
    given = "".join(f", {dtype} {name}" for name, dtype in (("h", "float16[n, 4]"), ("w", "float[n, 5]")) if inputs)
    return parse(f"({head} z{given}) => ({outputs}) {{ {' '.join(body)} }}")


def test_many_sites_cost_the_proofs_of_two(cut_out):
    """The first is found by search, and all others by its template."""
    _, report = surgeon.rewrite(stack(40), once)
    assert [site.outcome for site in report.sites] == ["proved"] * 40
    assert len(report.proofs) == 1
    assert len(cut_out) == 2


@pytest.mark.parametrize("second", ["h", "w"])
def test_another_dtype_or_shape_is_another_kind(second):
    model = stack(4, inputs=("z", second, "z", second), head="float[n, m]")
    _, report = surgeon.rewrite(model, once)
    assert [site.outcome for site in report.sites] == ["proved"] * 4
    assert len(report.proofs) == 2


def test_what_fails_for_one_is_tried_for_each(cut_out):
    """Each may hold in its own place, and each tells what differs by the names of its own tensors."""
    _, report = surgeon.rewrite(stack(5), never, keep_going=True)
    assert [site.outcome for site in report.rolled_back] == ["failed"] * 5
    assert len(set(cut_out)) == 5
    assert {site.proof.worst.name for site in report.rolled_back} == {f"y{i}" for i in range(5)}


def test_copies_and_integers_in_front_are_looked_behind(cut_out):
    surgeon.rewrite(stack(5, between="Identity"), once)
    assert len(cut_out) == 5
    surgeon.rewrite(stack(5, head="int32[n, 4]", between="Abs"), once)
    assert len(cut_out) == 10
