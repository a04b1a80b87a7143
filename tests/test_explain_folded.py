"""`explain` on a number that an exporter folded: with the edit that lets its node be left out, the rule fires."""

import pytest

import surgeon
from surgeon.testing import parse
from tests.test_explain_edits import pasted

RULE = """
from surgeon import Graph, Tensor, rule

def pattern({signature}) -> Tensor:
    return {body}

@rule(patterns=[pattern], target="any")
def mine({signature}) -> Tensor:
    return {written}
"""
CASES = {
    "a factor of 1 before a sigmoid": (
        "g: Graph, x: Tensor, beta: float",
        "g.mul(x, g.sigmoid(g.mul(x, beta)))",
        "k = Exp(x) s = Sigmoid(k) y = Mul(k, s)",
        "beta",
        1.0,
    ),
    "the number first": (
        "g: Graph, x: Tensor, scale: float",
        "g.relu(g.mul(scale, g.tanh(x)))",
        "t = Tanh(x) y = Relu(t)",
        "scale",
        1.0,
    ),
    "a summand of 0": (
        "g: Graph, x: Tensor, shift: float",
        "g.exp(g.add(g.sin(x), shift))",
        "s = Sin(x) y = Exp(s)",
        "shift",
        0.0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_edit_lets_the_node_be_left_out(name, tmp_path):
    """Of the pattern and of the replacement's default, both in the user's file."""
    signature, body, nodes, number, value = CASES[name]
    text = RULE.format(signature=signature, body=body, written=f'g.op("acme::It", x, number={number})')
    path, edited = tmp_path / "mine.py", tmp_path / "edited.py"
    path.write_text(text, encoding="utf-8")
    model = parse(f"(float[n, 4] x) => (float[n, 4] y) {{ {nodes} }}")
    edits = [edit for miss in surgeon.explain(model, str(path)) for edit in miss.edits]
    edit = next(one for one in edits if one.what.startswith(f"make {number} optional, because exporters fold "))
    assert "g.optional(" in edit.lines[0].new
    assert len(edit.lines) == 2
    edited.write_text(pasted(text, edit), encoding="utf-8")
    made, _ = surgeon.rewrite(model, str(edited), check="none")
    assert [(node.op_type, node.attribute[0].f) for node in made.graph.node if node.domain == "acme"] == [("It", value)]


def test_a_number_that_a_replacement_has_to_have_is_no_such_edit(tmp_path):
    """Without a default, in a place where Python takes none, the rule would be wrong."""
    signature = "g: Graph, beta: float, x: Tensor"
    text = RULE.format(signature=signature, body="g.relu(g.mul(g.tanh(x), beta))", written="g.relu(x)")
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    misses = surgeon.explain(parse("(float[n] x) => (float[n] y) { t = Tanh(x) y = Relu(t) }"), str(path))
    assert not [edit for miss in misses for edit in miss.edits if "because exporters" in edit.what]
