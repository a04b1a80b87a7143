"""Why a rule does not fire: ten near misses made by hand, each told by its true reason, as text and as data."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from surgeon.patterns.activations.gelu import exact, gelu, quick_gelu, sigmoid_approximation, tanh_approximation
from surgeon.patterns.linear_algebra.gemm import gemm

from surgeon import Graph, Rule, Tensor, require, rewrite
from surgeon.diagnostics.explanation import Explanation, explain, explanations
from surgeon.display.blocks import Document
from surgeon.display.content.explanation import explanation_blocks
from surgeon.display.terminal.terminal_renderer import text_of
from surgeon.rules.matching.pattern import NodeOutput, walk_values
from surgeon.rules.mismatches.mismatch import Mismatch, pattern_line
from surgeon.rules.tracing.tracer import trace
from tests.command_line import run
from tests.models import graph, make, opset

ERF = "d = Div(x, sqrt2) e = Erf(d) a = Add(e, one)"
GELU = f"{ERF} m = Mul(x, a) y = Mul(m, half)"
CONSTANTS = "float sqrt2 = {1.4142135}, float one = {1}, float half = {0.5}, float other = {0.4}"
TWO = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)"


def softmax(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.softmax(x, axis=-1))


def biased(g: Graph, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return g.relu(g.layer_normalization(x, scale, bias))


def halved(g: Graph, x: Tensor) -> Tensor:
    return g.abs(g.mul(x, 0.5))


def relu_tanh(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.tanh(x))


def not_double(x: Tensor) -> None:
    require(x.dtype != "float64", "float32 is too coarse for a double")


def is_matrix(x: Tensor) -> None:
    require(x.rank == 2, "x must be a matrix")


def line(function: Callable[..., object], op: str = "") -> str:
    """The line of a pattern, or of an op in it, as it is printed."""
    pattern = trace(function)[0]
    nodes = [value.operation for value in walk_values(pattern.outputs) if isinstance(value, NodeOutput)]
    return pattern_line(next((node.where for node in nodes if node.op == op.rpartition("::")[2]), pattern.where), op)


def own(function: Callable[..., object], below: int, text: str) -> str:
    """A line of a pattern of this file as it would be, so many lines below its first."""
    return f"test_explain.py:{function.__code__.co_firstlineno + below}: {text}"


AT_EXACT, AT_MUL, AT_DIV, AT_ERF = (line(exact, op) for op in ("", "Mul", "Div", "Erf"))
AT_MS_GELU = line(gelu.forms[0].function, "com.microsoft::Gelu")
AT_TANH, AT_QUICK = line(tanh_approximation), line(sigmoid_approximation)


def sin(g: Graph, x: Tensor) -> Tensor:
    return g.sin(x)


SOFTMAX, HALVED = make(softmax, sin, name="softmax"), make(halved, sin, name="halved")
BIASED = make(biased, lambda g, x, scale, bias: g.sin(x), name="biased")
COARSE = make(relu_tanh, sin, name="coarse", conditions=[not_double])
MATRIX = make(relu_tanh, sin, name="matrix", conditions=[is_matrix])


class Near(NamedTuple):
    """A model in which a rule nearly fires, how that prints, and some fields of the mismatch."""

    rule: Rule
    model: onnx.ModelProto
    text: str
    fields: dict[str, object]
    target: str = "ort"


def mismatch(**fields: object) -> dict[str, object]:
    return fields


NEAR = {
    "value": Near(
        gelu,
        graph(f"{ERF} m = Mul(x, a) y = Mul(m, other)", constants=CONSTANTS),
        f"""
gelu does not fire; nearest misses:
  at y: expected the constant 0.5 in a product, found 0.4 ('other') ({AT_MUL}); 4 of 5 nodes matched
    change: set other to 0.5
""",
        mismatch(
            kind="value",
            rule="gelu",
            pattern="exact",
            node="y",
            wanted="the constant 0.5 in a product",
            found="0.4",
            at="other",
            op="Mul",
            where=AT_MUL.split()[0],
            matched=4,
            total=5,
            change="set other to 0.5",
            others=(),
            also="",
            scope="",
        ),
    ),
    "divisor": Near(
        gelu,
        graph(
            "d = Div(x, c) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
            constants=f"{CONSTANTS}, float c = {{1.415}}",
        ),
        f"""
gelu does not fire; nearest misses:
  at y: expected the constant 1.414213562 to divide by, found 1.415 ('c') ({AT_DIV}); 4 of 5 nodes matched
    change: set c to 1.414213562
""",
        mismatch(kind="value", found="1.415", op="Div"),
    ),
    "operand": Near(
        gelu,
        graph(f"{ERF} m = Mul(w, a) y = Mul(m, half)", "(float[n, 4] x, float[n, 4] w) => (float[n, 4] y)", CONSTANTS),
        f"""
gelu does not fire; nearest misses:
  at y: 'x' must be the same tensor everywhere: it is input 'x', but here it is \
input 'w' ({AT_MUL}); 4 of 5 nodes matched
""",
        mismatch(kind="operand", wanted="the same tensor for 'x'", found="input", matched=4, change=""),
    ),
    "op": Near(
        gelu,
        graph(f"{ERF} m = Mul(x, a) y = Mul(m, half) z = Erf(y)".replace("Erf(d)", "Tanh(d)"), TWO, CONSTANTS),
        f"""
gelu does not fire; nearest misses:
  at y: expected Erf, found Tanh at 'e' ({AT_ERF}); 4 of 5 nodes matched
""",
        mismatch(kind="op", wanted="Erf", found="Tanh", at="e", op="Erf", change=""),
    ),
    "attribute": Near(
        SOFTMAX,
        graph("s = Softmax<axis = 0>(x) y = Relu(s)"),
        f"""
softmax does not fire; nearest misses:
  at y: expected axis = -1, found 0 at 's' ({line(softmax, "Softmax")}); 1 of 2 nodes matched
    change the rule: capture axis from the node
      {own(softmax, 0, "def softmax(g: Graph, x: Tensor, axis: int) -> Tensor:")}
      {own(softmax, 1, "    return g.relu(g.softmax(x, axis=axis))")}
    or: write 0 instead of -1
      {own(softmax, 1, "    return g.relu(g.softmax(x, axis=0))")}
    or change the model: set axis of s to -1
""",
        mismatch(kind="attribute", wanted="axis = -1", found="0", at="s", op="Softmax", change="set axis of s to -1"),
    ),
    "domain": Near(
        gelu,
        graph(GELU.replace("Erf", "my.Erf"), constants=CONSTANTS, header=opset(17)),
        f"""
gelu does not fire; nearest misses:
  at y: expected Erf, found my::Erf at 'e' (domain my) ({AT_ERF}); 4 of 5 nodes matched
    change: change the domain of e to ai.onnx
""",
        mismatch(kind="domain", wanted="Erf", found="my::Erf", at="e", change="change the domain of e to ai.onnx"),
    ),
    "domain of the one node": Near(
        gelu,
        graph("y = my.Gelu(x)", header=opset(17)),
        f"""
gelu does not fire; nearest misses:
  at y: expected com.microsoft::Gelu, found my::Gelu at 'y' (domain my) ({AT_MS_GELU}); 0 of 1 node matched
    change: change the domain of y to com.microsoft
""",
        mismatch(kind="domain", found="my::Gelu", matched=0, total=1),
        "decomposed",
    ),
    "dtype": Near(
        COARSE,
        graph("t = Tanh(x) y = Relu(t)", "(double[n, 4] x) => (double[n, 4] y)"),
        f"""
coarse does not fire; nearest misses:
  at y: float32 is too coarse for a double ({line(relu_tanh)}); 2 of 2 nodes matched
    found: double[n, 4] for 'x'
""",
        mismatch(kind="dtype", found="double[n, 4]", at="x", matched=2, total=2, change=""),
    ),
    "dtype of a division": Near(
        HALVED,
        graph("d = Div(x, two) y = Abs(d)", "(int32[n, 4] x) => (int32[n, 4] y)", "int32 two = {2}"),
        f"""
halved does not fire; nearest misses:
  at y: 'x' has dtype int32, and integers divide differently ({line(halved, "Mul")}); \
1 of 2 nodes matched
""",
        mismatch(kind="dtype", wanted="floats", found="int32", at="x", change=""),
    ),
    "escape": Near(
        gelu,
        graph(f"{GELU} [print] z = Neg(e)", TWO, CONSTANTS),
        f"""
gelu does not fire; nearest misses:
  at y: 'e' (output of 'e') is also read by 'print', outside the match ({AT_EXACT}); 5 of 5 nodes matched
    change: remove the use of 'e' by node print
""",
        mismatch(kind="escape", found="a use by Neg", at="e", change="remove the use of 'e' by node print"),
    ),
    "graph output": Near(
        gelu,
        graph(GELU, "(float[n, 4] x) => (float[n, 4] y, float[n, 4] e)", CONSTANTS),
        f"""
gelu does not fire; nearest misses:
  at y: 'e' (output of 'e') cannot be removed: it is an output of the graph ({AT_EXACT}); 5 of 5 nodes matched
    change: remove 'e' from the outputs of the graph
""",
        mismatch(kind="graph output", matched=5, change="remove 'e' from the outputs of the graph"),
    ),
    "opset": Near(
        gelu,
        graph(GELU, constants=CONSTANTS),
        f"""
gelu does not fire; nearest misses:
  at y: the form for target onnx needs opset 20 and the model has 17 ({AT_EXACT}); 5 of 5 nodes matched
    change: raise the opset: surgeon upgrade IN OUT --opset 20
""",
        mismatch(
            kind="opset",
            wanted="opset 20",
            found="opset 17",
            change="raise the opset: surgeon upgrade IN OUT --opset 20",
        ),
        "onnx",
    ),
    "missing optional": Near(
        BIASED,
        graph("l = LayerNormalization(x, s) y = Relu(l)", constants="float[4] s = {1, 1, 1, 1}"),
        f"""
biased does not fire; nearest misses:
  at y: expected input 2 ('B') of LayerNormalization, found none at 'l' ({line(biased, "LayerNormalization")}); \
1 of 2 nodes matched
    change the rule: make bias optional
      {own(biased, 0, "def biased(g: Graph, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:")}
""",
        mismatch(
            kind="missing optional", at="l", wanted="input 2 ('B') of LayerNormalization", found="none", change=""
        ),
    ),
    "shape condition": Near(
        MATRIX,
        graph("t = Tanh(x) y = Relu(t)", "(float[2, 3, 4] x) => (float[2, 3, 4] y)"),
        f"""
matrix does not fire; nearest misses:
  at y: x must be a matrix ({line(relu_tanh)}); 2 of 2 nodes matched
    found: float[2, 3, 4] for 'x'
""",
        mismatch(kind="shape condition", found="float[2, 3, 4]", at="x", change=""),
    ),
    "a constant that a caller may override": Near(
        gelu,
        graph(
            GELU,
            "(float[n, 4] x, float half = {0.5}) => (float[n, 4] y)",
            "float sqrt2 = {1.4142135}, float one = {1.0}",
        ),
        f"""
gelu does not fire; nearest misses:
  at y: expected the constant 0.5 in a product, found an initializer that is also an input, so a caller may override \
it ('half') ({AT_MUL}); 4 of 5 nodes matched
    change: remove 'half' from the inputs of the graph
""",
        mismatch(kind="operand", at="half"),
    ),
    "two at once": Near(
        gelu,
        graph(
            "d = Div(x, c) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, other)",
            constants=f"{CONSTANTS}, float c = {{1.415}}",
        ),
        f"""
gelu does not fire; nearest misses:
  at y: expected the constant 0.5 in a product, found 0.4 ('other') ({AT_MUL}); 3 of 5 nodes matched
    and: expected the constant 1.414213562 to divide by, found 1.415 ('c')
""",
        mismatch(kind="value", change="", also="expected the constant 1.414213562 to divide by, found 1.415 ('c')"),
    ),
}


def printed(found: list[Explanation], node: str | None = None) -> str:
    """Explanations as the command prints them, without the empty lines between."""
    blocks = [block for one in found for block in explanation_blocks(one, node)]
    return "\n".join(filter(None, text_of(Document("", blocks)).splitlines()))


@pytest.mark.parametrize("near", NEAR.values(), ids=list(NEAR))
def test_near_misses(near: Near) -> None:
    """The exact text, and the same as data; nothing in the model changes."""
    before = near.model.SerializeToString()
    found = explanations(near.model, near.rule, target=near.target)
    assert printed(found) == near.text.strip("\n")
    (miss,) = explain(near.model, near.rule, target=near.target)
    assert isinstance(miss, Mismatch)
    assert {name: getattr(miss, name) for name in near.fields} == near.fields
    assert near.model.SerializeToString() == before


@pytest.mark.parametrize("near", NEAR.values(), ids=list(NEAR))
def test_a_mismatch_prints_as_the_command_line_has_it(near: Near) -> None:
    """One line with the rule in it, and below it all that the command says."""
    found = explain(near.model, near.rule, target=near.target)[0]
    first, *rest = str(found).splitlines()
    _, miss, *below = near.text.strip("\n").splitlines()
    assert first == f"{found.rule} {miss.strip()}"
    assert [f"  {line}" for line in rest] == below


def fires(model: onnx.ModelProto, found: Rule, target: str = "ort") -> int:
    """How often a rule fires."""
    return rewrite(model, found, target=target, check="none")[1].count(found.name)


def initializer(model: onnx.ModelProto, name: str, value: float) -> None:
    item = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    item.CopyFrom(numpy_helper.from_array(np.full_like(numpy_helper.to_array(item), value), name))


def node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    found: onnx.NodeProto = next(item for item in model.graph.node if name in (item.name, *item.output))
    return found


def without_print(model: onnx.ModelProto) -> None:
    node(model, "print").input[0] = "x"


def without_output(model: onnx.ModelProto) -> None:
    del model.graph.output[1]


def at_opset_20(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 20


CHANGES: list[tuple[str, Callable[[onnx.ModelProto], object]]] = [
    ("value", lambda model: initializer(model, "other", 0.5)),
    ("divisor", lambda model: initializer(model, "c", 1.414213562)),
    ("attribute", lambda model: node(model, "s").attribute[0].CopyFrom(helper.make_attribute("axis", -1))),
    ("domain", lambda model: setattr(node(model, "e"), "domain", "")),
    ("domain of the one node", lambda model: setattr(node(model, "y"), "domain", "com.microsoft")),
    ("escape", without_print),
    ("graph output", without_output),
    ("opset", at_opset_20),
    ("a constant that a caller may override", lambda model: model.graph.input.pop()),
]


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_the_reported_change_makes_the_rule_fire(name: str, change: Callable[[onnx.ModelProto], object]) -> None:
    near = NEAR[name]
    assert explain(near.model, near.rule, target=near.target)[0].change
    assert fires(near.model, near.rule, near.target) == 0
    mended = onnx.ModelProto.FromString(near.model.SerializeToString())
    change(mended)
    assert fires(mended, near.rule, near.target) == 1


def test_every_obvious_change_above_is_tried() -> None:
    """The list above leaves out none of the near misses that tell a change."""
    reported = {
        name
        for name, near in NEAR.items()
        if any(miss.change for miss in explain(near.model, near.rule, target=near.target))
    }
    assert reported == {name for name, _ in CHANGES}


def test_a_constant_that_others_read_is_replaced_where_it_is_read() -> None:
    """To change it would change the others; to read another one would not."""
    model = graph(f"{ERF} m = Mul(x, a) y = Mul(m, one)", constants=CONSTANTS)
    assert explain(model, gelu)[0].change == "make y read 0.5 instead of 'one'"
    node(model, "y").input[1] = "half"
    assert fires(model, gelu) == 1


def test_a_constant_that_is_computed_is_replaced_where_it_is_read() -> None:
    model = graph(f"h = Sqrt(other) {ERF} m = Mul(x, a) y = Mul(m, h)", constants=CONSTANTS)
    miss = explain(model, gelu)[0]
    assert (miss.found, miss.change) == ("0.6324555", "make y read 0.5 instead of 'h'")


def test_a_use_and_an_output_together_are_two_reasons_and_no_change() -> None:
    head = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] a, float[n, 4] z)"
    miss = explain(graph(f"{GELU} [print] z = Neg(e)", head, CONSTANTS), gelu)[0]
    assert miss.reason == "'e' (output of 'e') is also read by 'print', outside the match"
    assert miss.also == "'a' (output of 'a') cannot be removed: it is an output of the graph"
    assert miss.change == ""


def test_many_uses_are_counted() -> None:
    model = graph(f"{GELU} b = Neg(e) c = Abs(e) f = Exp(e) z = Sum(e, b, c, f)", TWO, CONSTANTS)
    miss = explain(model, gelu)[0]
    assert miss.reason == "'e' (output of 'e') is also read by 'b' and 3 more, outside the match"
    assert miss.change == ""
    model = graph(f"{GELU} b = Neg(e) z = Add(e, b)", TWO, CONSTANTS)
    assert explain(model, gelu)[0].change == "remove the uses of 'e' by nodes b and z"


def test_what_stands_against_it_after_a_miss_is_reported_too() -> None:
    """Mending the constant alone would not do: the opset is too old as well."""
    miss = explain(graph(f"{ERF} m = Mul(x, a) y = Mul(m, other)", constants=CONSTANTS), gelu, target="onnx")[0]
    assert (miss.kind, miss.change) == ("value", "")
    assert miss.also == "the form for target onnx needs opset 20 and the model has 17"


def test_what_breaks_a_schema_for_its_dtype_says_dtype() -> None:
    int_gelu = make(relu_tanh, lambda g, x: g.ms_gelu(x), name="int_gelu")
    model = graph("t = Tanh(x) y = Relu(t)", "(int32[n] x) => (int32[n] y)")
    miss = explain(model, int_gelu)[0]
    assert miss.kind == "dtype"
    assert miss.reason.startswith("the replacement violates a schema: The input 'X' of Gelu is tensor(int32)")


def test_an_input_too_many_is_named() -> None:
    plain = make(lambda g, x: g.relu(g.clip(x, 0.0)), sin, name="plain")
    model = graph("c = Clip(x, zero, six) y = Relu(c)", constants="float zero = {0}, float six = {6}")
    miss = explain(model, plain)[0]
    assert miss.kind == "missing optional"
    assert miss.reason == "Clip at 'c' has 3 inputs, expected 2: the pattern leaves out input 2 ('max')"


def test_a_rule_that_fires_everywhere_misses_nothing() -> None:
    model = graph(GELU, constants=CONSTANTS)
    assert explain(model, gelu) == []
    assert printed(explanations(model, gelu)) == "gelu fires at 1 site (y); nothing is missed"


def test_a_near_miss_beside_a_place_where_it_fires() -> None:
    """Both are told: where it fires, and why it does not elsewhere."""
    second = "d2 = Div(y, sqrt2) e2 = Erf(d2) a2 = Add(e2, one) m2 = Mul(y, a2) z = Mul(m2, other)"
    found = explanations(graph(f"{GELU} {second}", TWO, CONSTANTS), gelu)
    assert printed(found).splitlines()[:2] == [
        "gelu fires at 1 site (y); nearest misses:",
        f"  at z: expected the constant 0.5 in a product, found 0.4 ('other') ({AT_MUL}); 4 of 5 nodes matched",
    ]


def test_an_op_that_the_model_lacks() -> None:
    found = explanations(graph("y = Relu(x)"), [gelu, quick_gelu])
    assert printed(found).splitlines() == [
        "gelu does not fire:",
        f"  the model has no Erf ({AT_EXACT})",
        "quick_gelu does not fire:",
        f"  the model has no Sigmoid ({AT_QUICK})",
    ]
    assert [item.misses[0].kind for item in found] == ["absent", "absent"]


def test_an_op_by_a_wildcard_that_the_model_lacks() -> None:
    (miss,) = explain(graph("y = Relu(x)"), "deform_conv")
    assert (miss.kind, miss.reason) == ("absent", "the model has no *::deform_conv2d")


def test_a_target_for_which_there_is_no_form() -> None:
    (miss,) = explain(graph(GELU, constants=CONSTANTS), make(relu_tanh, sin, name="only_ort"), target="onnx")
    assert (miss.kind, miss.reason) == ("target", "rule only_ort has no form for target onnx; it has one for ort")


def test_an_op_that_the_model_has_inside_another() -> None:
    """A rule could take that one apart."""
    model = graph("y = Gemm(x, w)", "(float[n, 4] x, float[4, 4] w) => (float[n, 4] y)")
    rules = [make(lambda g, x, w: g.relu(g.matmul(x, w)), lambda g, x, w: g.sin(x), name="made")]
    (miss,) = explain(model, rules)
    assert miss.reason == (
        "the model has no MatMul; it has 1 Gemm, which --rules gemm --target decomposed decomposes"
    )


def test_an_op_that_another_rule_took() -> None:
    """The report of a rewrite says which rule was before."""
    model = graph(
        "m = MatMul(x, w) y = Add(m, b)",
        constants="float[4, 4] w = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, float[4] b = {1, 2, 3, 4}",
    )
    made = make(lambda g, x, w: g.relu(g.matmul(x, w)), lambda g, x, w: g.sin(x), name="made")
    _, report = rewrite(model, [gemm, made], check="none")
    assert [miss.reason for miss in report.misses if miss.rule == "made"] == [
        "the model has no MatMul left; gemm replaced 1 with Gemm"
    ]
    assert rewrite(model, made, check="none")[1].misses[0].reason == "the model has no Relu"


def test_what_is_printed_is_what_the_command_line_prints(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(graph(GELU.replace("half", "other"), constants=CONSTANTS), path)
    for more in ((), ("--node", "e")):
        found = explain(path, "gelu,softmax", **dict(zip(("node",), more[1:], strict=False)))
        assert str(found) == run("explain", path, "-r", "gelu,softmax", *more).stdout.rstrip("\n")
        assert isinstance(found, list)
    assert "gelu, gelu_tanh and quick_gelu match nowhere" in str(explain(path, "gelu"))
