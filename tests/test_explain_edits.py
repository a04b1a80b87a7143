"""Edits of a user's own rule that `explain` proposes: each is pasted into the rule's file, and the rule fires then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import onnx
import pytest
from surgeon.patterns.activations.gelu import gelu

from surgeon import Graph, Tensor, explain, rewrite
from surgeon.cli.commands.explain import explain as command
from surgeon.rules.mismatches.mismatch import Mismatch, RuleFix
from tests.command_line import result_in, runner
from tests.models import graph, make, opset

HEADER = opset(18, acme=1, other=1)
TWO = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)"
HALF = "(float[n, 4] x) => (float16[n, 4] y)"
WEIGHTED = "(float[n, 4] x, float[4, 4] w) => (float[n, 4] y)"


class Edited(NamedTuple):
    """The body of a pattern, a model in which it nearly fits, and what the edits do, in order."""

    body: str
    model: onnx.ModelProto
    proposals: tuple[str, ...]
    signature: str = "g: Graph, x: Tensor"
    before: str = ""


def model(body: str, head: str = "", constants: str = "") -> onnx.ModelProto:
    return graph(body, *([head] if head else []), header=HEADER, constants=constants)


SQUARE = "use g.square (x²: Pow by 2, or x times itself)"
OTHERS = "allow other consumers of it"
EDITS = {
    "another attribute of a placeholder": Edited(
        'g.relu(g.op("acme::blend", x, radius=5))',
        model("b = acme.blend<radius = 7>(x) y = Relu(b)"),
        ("capture radius from the node", "write 7 instead of 5"),
    ),
    "an attribute that no name mentions": Edited(
        'g.relu(g.op("acme::blend", x))',
        model('b = acme.blend<mode = "fast">(x) y = Relu(b)'),
        ("capture mode from the node", "capture all other attributes"),
    ),
    "two of them": Edited(
        'g.relu(g.op("acme::blend", x))',
        model("b = acme.blend<radius = 7, beta = 0.5>(x) y = Relu(b)"),
        ("capture radius and beta from the node", "capture all other attributes"),
    ),
    "a Cast to another dtype": Edited(
        "g.relu(g.cast(g.tanh(x), to=16))",
        model("t = Tanh(x) c = Cast<to = 10>(t) y = Relu(c)", HALF),
        ("capture to from the node", "write 10 instead of 16"),
    ),
    "a Cast without a dtype": Edited(
        "g.relu(g.optional(g.cast(g.tanh(x))))",
        model("t = Tanh(x) c = Cast<to = 10>(t) y = Relu(c)", HALF),
        ("capture to from the node", "capture all other attributes"),
    ),
    "a name that the pattern uses itself": Edited(
        "g.relu(g.softmax(axis, axis=0))",
        model("s = Softmax<axis = 1>(x) y = Relu(s)"),
        ("capture axis from the node", "write 1 instead of 0"),
        signature="g: Graph, axis: Tensor",
    ),
    "a constant": Edited(
        "g.relu(g.mul(x, 0.4))",
        model("m = Mul(x, c) y = Relu(m)", constants="float c = {0.5}"),
        ("write 0.5 instead of 0.4", "capture the number as alpha instead of 0.4"),
    ),
    "a factor that the model has not": Edited(
        "g.mul(x, 0.5, g.add(g.tanh(x), 1.0))",
        model("t = Tanh(x) a = Add(t, one) y = Mul(x, a)", constants="float one = {1}"),
        ("remove 0.5",),
    ),
    "a number that is not added": Edited(
        "g.add(g.mul(g.tanh(x), g.sigmoid(x)), 1, g.relu(x))",
        model("t = Tanh(x) s = Sigmoid(x) m = Mul(t, s) r = Relu(x) y = Add(m, r)"),
        ("remove 1",),
    ),
    "a factor that the pattern has not": Edited(
        "g.mul(x, g.tanh(x))",
        model("t = Tanh(x) h = Mul(x, c) y = Mul(h, t)", constants="float c = {0.5}"),
        ("also multiply by 0.5", "also multiply by a number, captured as alpha"),
    ),
    "a number that is multiplied with on the way": Edited(
        "g.relu(g.tanh(x))",
        model("t = Tanh(x) m = Mul(t, c) y = Relu(m)", constants="float c = {0.5}"),
        ("multiply by a number there, captured as alpha", "multiply by a tensor there, captured as y"),
    ),
    "a tensor that is added on the way": Edited(
        "g.relu(g.tanh(m.x))",
        model("t = Tanh(x) s = Sigmoid(x) a = Add(s, t) y = Relu(a)"),
        ("add a tensor there, captured as m.y",),
        signature="g: Graph, m: Taken",
        before="class Taken(Captures):\n    x: Tensor\n",
    ),
    "an attribute, and captures in a record": Edited(
        'g.relu(g.op("acme::blend", m.x, radius=5))',
        model("b = acme.blend<radius = 7>(x) y = Relu(b)"),
        ("capture radius from the node", "write 7 instead of 5"),
        signature="g: Graph, m: Taken",
        before="class Taken(Captures):\n    x: Tensor\n    y: Tensor | None = None\n",
    ),
    "a constant, and captures in a record": Edited(
        "g.relu(g.mul(m.x, 0.4))",
        model("m = Mul(x, c) y = Relu(m)", constants="float c = {0.5}"),
        ("write 0.5 instead of 0.4", "capture the number as m.alpha instead of 0.4"),
        signature="g: Graph, m: Taken",
        before="class Taken(Captures):\n    x: Tensor\n",
    ),
    "a constant that is computed": Edited(
        "g.relu(g.div(x, sqrt(3)))",
        model("m = Div(x, c) y = Relu(m)", constants="float c = {1.5}"),
        ("write 1.5 instead of sqrt(3)", "capture the number as alpha instead of sqrt(3)"),
    ),
    "a constant on another line": Edited(
        "[half := g.mul(x, 0.4),\n        g.mul(half, g.tanh(x))][1]",
        model("t = Tanh(x) h = Mul(x, c) y = Mul(h, t)", constants="float c = {0.5}"),
        (
            "write 0.5 instead of 0.4",
            "capture the number as alpha instead of 0.4",
            "also multiply by a number, captured as alpha",
        ),
    ),
    "a constant in a function of its own": Edited(
        "g.relu(scaled(g, x))",
        model("m = Mul(x, c) y = Relu(m)", constants="float c = {0.5}"),
        ("write 0.5 instead of 0.4",),
        before="def scaled(g, x):\n    return g.mul(x, 0.4)\n",
    ),
    "a tensor for a number": Edited(
        "g.relu(g.mul(x, 0.4))",
        model("m = Mul(x, w) y = Relu(m)", "(float[n, 4] x, float[4] w) => (float[n, 4] y)"),
        ("capture any tensor as y instead of 0.4",),
    ),
    "r · r for a power": Edited(
        "g.mul(g.tanh(x), g.pow(x, 2))", model("t = Tanh(x) s = Mul(x, x) y = Mul(t, s)"), (SQUARE,)
    ),
    "r · r at the root": Edited("g.pow(g.tanh(x), 2.0)", model("t = Tanh(x) y = Mul(t, t)"), (SQUARE,)),
    "a power for r · r": Edited(
        "g.relu(g.mul(x, x))",
        model("t = Pow(x, two) y = Relu(t)", constants="float two = {2}"),
        (SQUARE,),
    ),
    "a reciprocal of a root": Edited(
        "g.mul(g.tanh(x), g.reciprocal(g.sqrt(x)))",
        model("t = Tanh(x) r = Pow(x, p) y = Mul(t, r)", constants="float p = {-0.5}"),
        (
            "use g.over_root (x/√v: divided by a square root, or multiplied by its reciprocal)",
            "use g.rsqrt (1/√x: the reciprocal of a square root, or Pow by −½)",
        ),
    ),
    "Clip for Relu": Edited(
        "g.neg(g.relu(g.tanh(x)))",
        model("t = Tanh(x) r = Clip(t, zero) y = Neg(r)", constants="float zero = {0}"),
        ("use g.relu_of (max(x, 0): Relu, Max, or Clip without an upper bound)",),
    ),
    "a Cast on the way": Edited(
        "g.relu(g.tanh(x))",
        model("t = Tanh(x) c = Cast<to = 10>(t) y = Relu(c)", HALF),
        ("allow a Cast to float16 there",),
    ),
    "a Cast in a product": Edited(
        "g.relu(g.mul(g.tanh(x), g.exp(z)))",
        model("t = Tanh(x) c = Cast<to = 10>(t) e = Exp(z) m = Mul(c, e) y = Relu(m)",
              "(float[n, 4] x, float16[n, 4] z) => (float16[n, 4] y)"),
        ("allow a Cast to float16 there",),
        signature="g: Graph, x: Tensor, z: Tensor",
    ),
    "a tensor that others read": Edited(
        "g.relu(g.tanh(x))", model("t = Tanh(x) z = Neg(t) y = Relu(t)", TWO), (OTHERS,)
    ),
    "a tensor that is an output, by a name of its own": Edited(
        "g.relu(inner)",
        model("z = Tanh(x) y = Relu(z)", TWO),
        (OTHERS,),
    ),
    "an op of another domain": Edited(
        "g.relu(g.tanh(x))", model("t = other.Tanh(x) y = Relu(t)"), ("match other::Tanh instead",)
    ),
    "a placeholder of another domain": Edited(
        'g.relu(g.op("acme::blend", x, k=1))',
        model("t = other.blend<k = 1>(x) y = Relu(t)"),
        ("match other::blend instead",),
    ),
    "an input that is left out": Edited(
        "g.relu(g.layer_normalization(x, scale, bias))",
        model("l = LayerNormalization(x, s) y = Relu(l)", constants="float[4] s = {1, 1, 1, 1}"),
        ("make bias optional",),
        signature="g: Graph, x: Tensor, scale: Tensor, bias: Tensor",
    ),
    "an input too many": Edited(
        "g.relu(g.layer_normalization(x, scale))",
        model("l = LayerNormalization(x, s, s) y = Relu(l)", constants="float[4] s = {1, 1, 1, 1}"),
        ("also capture b",),
        signature="g: Graph, x: Tensor, scale: Tensor",
    ),
    "a tensor that is not fixed": Edited(
        "g.relu(g.matmul(x, w))",
        model("m = MatMul(x, w) y = Relu(m)", WEIGHTED),
        ("let w be any tensor",),
        signature="g: Graph, x: Tensor, w: Constant",
    ),
    "two things at once": Edited(
        "g.relu(g.mul(g.tanh(x), 0.4))",
        model("t = Tanh(x) m = Mul(t, c) z = Neg(t) y = Relu(m)", TWO, constants="float c = {0.5}"),
        (),
    ),
    "another op": Edited("g.relu(g.tanh(x))", model("t = Sin(x) y = Relu(t) z = Tanh(x)", TWO), ()),
}


def source(case: Edited) -> str:
    """The rule's file."""
    inner = "    inner = g.tanh(x)\n" if "inner" in case.body else ""
    first = case.signature.split(", ")[1]
    taken = first.partition(":")[0] + ".x" * first.endswith("Taken")
    return (
        '"""Ω: letters of two bytes."""\nfrom math import sqrt\n'
        "from surgeon import Captures, Constant, Graph, Tensor, rule\n\n"
        f"{case.before}\n\ndef pattern({case.signature}) -> Tensor:\n"
        f'    """√: a letter of three."""\n{inner}    return {case.body}\n\n\n'
        f"@rule(patterns=[pattern])\ndef fused(g: Graph, {first}) -> Tensor:\n"
        f'    """Write a placeholder."""\n    return g.op("acme::fused", {taken})\n'
    )


def pasted(text: str, edit: RuleFix) -> str:
    """The rule's file with the lines of an edit in it."""
    lines = text.splitlines()
    for line in reversed(edit.lines):
        assert lines[line.line - 1] == line.old
        lines[line.line - 1] = line.new
    return "\n".join(lines) + "\n"


def fires(case: Edited, path: Path) -> int:
    """How often the rule of a file fires."""
    return rewrite(case.model, str(path), check="none")[1].count("fused")


@pytest.mark.parametrize("case", EDITS.values(), ids=list(EDITS))
def test_each_edit_makes_the_rule_fire(case: Edited, tmp_path: Path) -> None:
    """Those that are told are those that are listed, and each is seen to do what it says."""
    path = tmp_path / "mine.py"
    path.write_text(source(case), encoding="utf-8")
    assert fires(case, path) == 0
    miss = explain(case.model, str(path))[0]
    assert tuple(edit.what for edit in miss.edits) == case.proposals
    for number, edit in enumerate(miss.edits):
        assert {line.file for line in edit.lines} == {str(path)}
        edited = tmp_path / f"edited_{number}.py"
        edited.write_text(pasted(source(case), edit), encoding="utf-8")
        assert fires(case, edited) == 1, edit.what


def missed(tmp_path: Path, name: str) -> tuple[Mismatch, Path, Path]:
    """A miss, with the files of its rule and its model."""
    case = EDITS[name]
    path, file = tmp_path / "mine.py", tmp_path / "in.onnx"
    path.write_text(source(case), encoding="utf-8")
    onnx.save(case.model, file)
    return explain(str(file), str(path))[0], path, file


def test_they_are_printed_as_lines_to_paste(tmp_path: Path) -> None:
    _, path, file = missed(tmp_path, "another attribute of a placeholder")
    printed = runner().invoke(command, [str(file), "--rules", str(path)]).output.splitlines()
    assert printed[2:] == [
        "           change the rule: capture radius from the node",
        "             mine.py:7: def pattern(g: Graph, x: Tensor, radius: int) -> Tensor:",
        '             mine.py:9:     return g.relu(g.op("acme::blend", x, radius=radius))',
        "           or: write 7 instead of 5",
        '             mine.py:9:     return g.relu(g.op("acme::blend", x, radius=7))',
        "           or change the model: set radius of b to 5",
    ]


def test_they_are_data(tmp_path: Path) -> None:
    miss, path, file = missed(tmp_path, "a constant")
    data = result_in(runner().invoke(command, [str(file), "--rules", str(path), "--json"]).output)
    line = {
        "file": str(path),
        "line": 9,
        "old": "    return g.relu(g.mul(x, 0.4))",
        "new": "    return g.relu(g.mul(x, 0.5))",
    }
    assert data["rules"][0]["misses"][0]["edits"][0] == {"what": "write 0.5 instead of 0.4", "lines": [line]}
    assert json.loads(json.dumps(miss.to_dict()))["edits"] == data["rules"][0]["misses"][0]["edits"]


@pytest.mark.parametrize(
    "name", ["a Cast without a dtype", "an attribute that no name mentions", "another attribute of a placeholder"]
)
def test_what_an_op_needs_is_never_to_be_removed(name: str, tmp_path: Path) -> None:
    """`to` is mandatory, and nobody knows what a placeholder does without an attribute."""
    miss, _, _ = missed(tmp_path, name)
    assert not miss.change.startswith("remove")


def plain_softmax(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.softmax(x))


def power(g: Graph, x: Tensor) -> Tensor:
    return g.pow(g.tanh(x), 2)


def test_an_attribute_with_a_default_may_be_removed() -> None:
    found = model("s = Softmax<axis = 0>(x) y = Relu(s)")
    miss = explain(found, make(plain_softmax, lambda g, x: g.abs(x), name="made"))[0]
    assert miss.change == "remove axis from s"


def test_a_rule_of_a_pack_is_not_the_users_to_edit() -> None:
    constants = "float s = {1.4142135}, float o = {1}, float h = {0.4}"
    found = model("d = Div(x, s) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h)", constants=constants)
    miss = explain(found, gelu)[0]
    assert (miss.change, miss.edits) == ("set h to 0.5", ())


def test_a_rewrite_proposes_none(tmp_path: Path) -> None:
    """They are for who asks: each costs a trial."""
    case = EDITS["a constant"]
    path = tmp_path / "mine.py"
    path.write_text(source(case), encoding="utf-8")
    report = rewrite(case.model, str(path), check="none")[1]
    assert [miss.edits for miss in report.misses] == [()]


def test_a_pattern_without_a_source_has_none() -> None:
    """One that stands in another function, or is a lambda."""
    made = make(lambda g, x: g.relu(g.mul(x, 0.4)), lambda g, x: g.abs(x), name="made")
    miss = explain(EDITS["a constant"].model, made)[0]
    assert (miss.kind, miss.edits) == ("value", ())


def test_where_two_operands_are_one_tensor_the_place_is_reported() -> None:
    """Nobody has to name it, though the model has no Pow."""
    miss = explain(model("t = Tanh(x) y = Mul(t, t)"), make(power, lambda g, x: g.abs(x), name="made"))[0]
    assert (miss.node, miss.kind, miss.reason) == ("y", "op", "expected Pow, found Mul at 'y'")
