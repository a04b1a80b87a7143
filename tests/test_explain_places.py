"""Where `surgeon explain` looks and what it makes of it: forms, scopes, equal misses, single nodes, the command."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import numpy_helper
from surgeon.patterns.activations.gelu import gelu, gelu_tanh

from surgeon import Graph, Tensor, UsageError, rewrite, rule
from surgeon.cli.commands.explain import explain as command
from surgeon.diagnostics.explanation import explain, explanations
from surgeon.errors import ModelFileError, RuleError, SurgeonError
from surgeon.testing import parse
from tests.command_line import CONSTANTS, gelus, one_sentence, result_in, runner, save
from tests.command_line import run as program
from tests.models import graph, make
from tests.test_explain import AT_MUL, ERF, GELU, TWO, printed, relu_tanh, sin
from tests.test_explain import CONSTANTS as FOUR

IF = """
    c = Constant <value = bool {1}> ()
    y = If (c) <
        then_branch = t () => (float[n, 4] b) { d = Div(x, sqrt2) e = Erf(d) f = Add(e, one) h = Mul(x, f)
                                                b = Mul(h, one) },
        else_branch = s () => (float[n, 4] p) { p = Identity(x) }
    >
"""
FUNCTION = """
    <domain: "local", opset_import: ["" : 17]> act (v) => (w) {
        two = Constant <value = float {1.4142135}> () one = Constant <value = float {1.0}> ()
        half = Constant <value = float {0.4}> ()
        d = Div(v, two) e = Erf(d) a = Add(e, one) m = Mul(v, a) w = Mul(m, half)
    }
"""


def reason(model: onnx.ModelProto, pattern: object, **settings: object) -> str:
    """The reason told first."""
    return explain(model, make(pattern, sin, name="rule"), **settings)[0].reason  # type: ignore[arg-type]  # a pattern


def run(*arguments: object) -> Result:
    """Run the command as the shell would."""
    return runner().invoke(command, [str(item) for item in arguments])


def near_gelus(folder: Path, count: int) -> Path:
    """A stack of GELUs with 0.4 for a half."""
    return gelus(folder, count, constants=CONSTANTS.replace("0.5", "0.4"))


def test_of_several_forms_the_one_that_came_furthest_is_reported() -> None:
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.any_of(g.exp(x), g.sigmoid(g.tanh(g.abs(x))), g.sigmoid(g.sin(x))))

    model = graph("a = Ceil(x) t = Tanh(a) s = Sigmoid(t) y = Relu(s) z = Abs(x)", TWO)
    (miss,) = explain(model, make(pattern, sin, name="rule"))
    assert miss.reason == "expected Abs, found Ceil at 'a'"
    assert (miss.matched, miss.total) == (3, 4)


def test_where_no_form_begins_all_are_named() -> None:
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.any_of(g.exp(x), g.sigmoid(g.tanh(x))))

    model = graph("y = Relu(x) e = Exp(y) z = Neg(e)", TWO)
    assert reason(model, pattern) == "expected Exp or Sigmoid, found input 'x'"


def test_a_node_that_may_be_left_out_is_not_asked_for() -> None:
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.optional(g.cast(g.tanh(x), to=1)))

    model = graph("s = Sigmoid(x) y = Relu(s) z = Tanh(x)", TWO)
    assert reason(model, pattern) == "expected Tanh, found Sigmoid at 's'"
    model = graph("s = Sigmoid(x) c = Cast<to = 1>(s) y = Relu(c) z = Tanh(x)", TWO)
    assert reason(model, pattern) == "expected Tanh, found Sigmoid at 's'"


def test_the_operands_of_a_sum_in_any_order() -> None:
    """Neither order is to blame: the Tanh is."""

    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.add(g.exp(x), g.sigmoid(x)))

    for total in ("Add(a, b)", "Add(b, a)"):
        model = graph(f"a = Tanh(x) b = Exp(x) s = {total} y = Relu(s) z = Sigmoid(y)", TWO)
        (miss,) = explain(model, make(pattern, sin, name="rule"))
        assert miss.reason == "expected Sigmoid, found Tanh at 'a'"
        assert (miss.matched, miss.total) == (3, 4)


def test_of_several_patterns_the_nearest_is_reported() -> None:
    """The tanh form with x taken out of the bracket, and 0.05 for 0.044715: the other form is further off."""
    body = (
        "q = Mul(x, c) q2 = Mul(q, x) s = Add(q2, one) kx = Mul(x, k) t = Mul(kx, s) h = Tanh(t) a = Add(h, one) "
        "m = Mul(x, half) y = Mul(m, a)"
    )
    constants = "float c = {0.05}, float k = {0.7978845608}, float one = {1}, float half = {0.5}"
    (miss,) = explain(graph(body, constants=constants), gelu_tanh)
    assert miss.pattern == "tanh_factored"
    assert miss.reason == "expected the constant 0.044715 in a product, found 0.05 ('c')"
    assert miss.change == "set c to 0.044715"


def test_a_second_output_that_is_nowhere() -> None:
    def pattern(g: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
        return g.sin(x), g.cos(g.abs(x))

    pair = make(pattern, lambda g, x: (g.tan(x), g.tan(x)), name="pair")
    (miss,) = explain(graph("y = Sin(x) z = Neg(x)", TWO), pair)
    assert miss.reason == "expected output 1 of the pattern (Cos), found none that reads a matched tensor"


def test_the_number_of_a_capture_must_be_the_same_twice() -> None:
    def pattern(g: Graph, x: Tensor, alpha: float) -> Tensor:
        return g.relu(g.add(g.leaky_relu(x, alpha=alpha), g.elu(x, alpha=alpha)))

    model = graph("a = LeakyRelu<alpha = 0.5>(x) b = Elu<alpha = 0.25>(x) s = Add(a, b) y = Relu(s)")
    assert reason(model, pattern) in (
        "'alpha' must be the same number everywhere: it is 0.5, but here it is 0.25",
        "'alpha' must be the same number everywhere: it is 0.25, but here it is 0.5",
    )


def test_a_branch_of_an_if(tmp_path: Path) -> None:
    (found,) = explanations(save(tmp_path, IF), gelu)
    assert printed([found]).splitlines() == [
        "gelu does not fire; nearest misses:",
        f"  at b (then_branch of /y/If): expected the constant 0.5 in a product, found 1 ('one') ({AT_MUL}); "
        "4 of 5 nodes matched",
        "    change: make b read 0.5 instead of 'one'",
    ]


def test_a_local_function(tmp_path: Path) -> None:
    path = save(tmp_path, "y = local.act(x)", functions=FUNCTION, imports=', "local" : 1', ir_version=8)
    (miss,) = explain(path, gelu)
    assert (miss.scope, miss.reason) == (
        "function local::act",
        "expected the constant 0.5 in a product, found 0.4 ('half')",
    )
    assert miss.change == "set half to 0.5"
    (miss,) = explain(
        save(tmp_path, "y = local.act(x)", functions=FUNCTION.replace("0.4", "0.5"), imports=', "local" : 1'),
        gelu,
        target="onnx",
    )
    assert (miss.kind, miss.change) == ("opset", "")
    assert miss.reason == "the form for target onnx needs opset 20, but function local::act imports opset 17"


def test_ops_that_stand_in_different_graphs() -> None:
    """Each op is somewhere, but nowhere are both."""
    text = (
        "c = Constant <value = bool {1}> () r = Relu(x) "
        "i = If (c) <then_branch = t () => (float[n, 4] a) { a = Tanh(x) }, "
        "else_branch = s () => (float[n, 4] b) { b = Neg(x) }> y = Add(i, r)"
    )
    (miss,) = explain(graph(text), make(relu_tanh, sin, name="rule"))
    assert (miss.kind, miss.reason) == ("absent", "no graph of the model contains all of Relu, Tanh")


def test_equal_misses_are_reported_once(tmp_path: Path) -> None:
    (found,) = explanations(near_gelus(tmp_path, 5), gelu)
    assert printed([found]).splitlines() == [
        "gelu does not fire; nearest misses:",
        f"  at /h1/Mul: expected the constant 0.5 in a product, found 0.4 ('half') ({AT_MUL}); 4 of 5 nodes matched",
        "    change: make /h1/Mul read 0.5 instead of 'half'",
        "    and 4 more like it: /h2/Mul, /h3/Mul and 2 more",
    ]
    assert found.misses[0].others == ("/h2/Mul", "/h3/Mul", "/h4/Mul", "/y/Mul")


def stack_of_different(count: int) -> onnx.ModelProto:
    """GELUs in a row, each with another number for a half."""
    body, last = "", "x"
    for place in range(count):
        out = "y" if place == count - 1 else f"h{place}"
        body += f"d{place} = Div({last}, sqrt2) e{place} = Erf(d{place}) a{place} = Add(e{place}, one) "
        body += f"m{place} = Mul({last}, a{place}) {out} = Mul(m{place}, c{place}) "
        last = out
    numbers = ", ".join(f"float c{place} = {{0.{place + 11}}}" for place in range(count))
    return graph(body, constants=f"float sqrt2 = {{1.4142135}}, float one = {{1}}, {numbers}")


def test_top_limits_the_different_misses() -> None:
    model = stack_of_different(4)
    assert len(explain(model, gelu)) == 4
    assert [miss.node for miss in explain(model, gelu, top=2)] == ["h0", "h1"]
    last = printed(explanations(model, gelu, top=2)).splitlines()[-1]
    assert last == "  and 2 more for other reasons (--top shows more)"
    assert len(explain(stack_of_different(8), gelu, top=None)) == 8
    with pytest.raises(UsageError, match="Invalid top="):
        explain(model, gelu, top=0)


def test_the_nearest_come_first_and_what_is_far_off_is_left_out() -> None:
    """A site with two faults stands behind one with one; a lone sum of the model is no near miss."""
    body = (
        f"{ERF} m = Mul(x, a) g = Mul(m, other) d2 = Div(g, other) e2 = Erf(d2) a2 = Add(e2, one) m2 = Mul(g, a2) "
        "k = Mul(m2, other) s = Add(k, x) y = Mul(s, s)"
    )
    found = explain(graph(body, constants=FOUR), gelu)
    assert [(miss.node, miss.matched) for miss in found] == [("g", 4), ("k", 3)]


def test_twenty_thousand_near_misses_take_seconds(tmp_path: Path) -> None:
    """A fortieth of that here; each is looked at."""
    model = onnx.load(gelus(tmp_path, 500))
    half = next(tensor for tensor in model.graph.initializer if tensor.name == "half")
    half.CopyFrom(numpy_helper.from_array(np.asarray(0.4, np.float32), "half"))
    (miss,) = explain(model, gelu)
    assert len(miss.others) == 499


def test_one_node_by_its_name_or_by_a_tensor_that_it_makes(tmp_path: Path) -> None:
    path = near_gelus(tmp_path, 3)
    by_name, by_tensor = explain(path, gelu, node="/l1e/Erf"), explain(path, gelu, node="l1e")
    assert by_name == by_tensor
    assert {(miss.node, miss.kind) for miss in by_name if miss.pattern != "placeholder"} == {("/h2/Mul", "value")}


def test_one_node_against_each_pattern() -> None:
    """Also where it has nothing to do with one."""
    found = explain(graph(f"{GELU} z = Relu(y)", TWO, FOUR), gelu_tanh, node="z")
    assert [miss.pattern for miss in found] == ["tanh_approximation", "tanh_factored", "tanh_placeholder"]
    assert {miss.reason for miss in found[:2]} == {"expected a product, found Relu at 'z'"}
    assert found[2].reason == "expected aten::gelu, found Relu at 'z'"


def test_one_node_in_a_place_that_fires() -> None:
    found = explanations(graph(GELU, constants=FOUR), gelu, node="e")
    assert printed(found, "e") == "gelu fires at e"
    assert explain(graph(GELU, constants=FOUR), gelu, node="e") == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/h1/Mull", "The model has no node or tensor '/h1/Mull'; did you mean /h1/Mul, /l1m/Mul or /y/Mul?"),
        (
            "qqqqqqqqqq",
            "The model has no node or tensor 'qqqqqqqqqq'; it has /l0d/Div, /l0e/Erf, /l0a/Add and 7 more; "
            "to see all, run: surgeon view IN",
        ),
        ("half", "'half' is an input or a weight. Give the name of a node, or of a tensor that a node produces."),
    ],
)
def test_a_node_that_is_not_there(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        explain(gelus(tmp_path, 2), gelu, node=name)
    assert str(caught.value) == message


def test_the_rewrite_reports_the_same_words(tmp_path: Path) -> None:
    path = near_gelus(tmp_path, 1)
    _, report = rewrite(path, gelu, dry_run=True)
    (near,), (miss,) = report.misses, explain(path, gelu)
    assert (near.reason, near.change, near.kind, near.op) == (miss.reason, miss.change, miss.kind, miss.op)
    assert (near.node, near.where, near.matched, near.total) == (miss.node, miss.where, miss.matched, miss.total)


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Unknown target"):
        explain(gelus(tmp_path, 1), gelu, target="moon")
    with pytest.raises(ModelFileError):
        explain(tmp_path / "none.onnx", gelu)
    with pytest.raises(RuleError, match="No rule named"):
        explain(gelus(tmp_path, 1), "gelluu")
    broken = make(relu_tanh, lambda g, x: g.sin(1 / 0), name="broken")
    with pytest.raises(SurgeonError, match="Rule broken raised an error"):
        explain(graph("t = Tanh(x) y = Relu(t)"), broken)


def test_the_command_prints_what_it_finds(tmp_path: Path) -> None:
    ran = run(near_gelus(tmp_path, 1), "--rules", "gelu")
    assert ran.exit_code == 0
    assert ran.output.splitlines() == [
        "in.onnx  gelu, gelu_tanh and quick_gelu match nowhere (details: -v)",
        "nearest  gelu at /y/Mul: expected the constant 0.5 in a product, found 0.4 ('half') "
        f"({AT_MUL}); 4 of 5 nodes matched",
        "           change: set half to 0.5",
        "others   gelu_tanh: the model has no Tanh",
        "         quick_gelu: the model has no Sigmoid",
    ]


def test_the_command_for_programs(tmp_path: Path) -> None:
    ran = run(near_gelus(tmp_path, 2), "-r", "gelu:gelu", "--json")
    (found,) = result_in(ran.output)["rules"]
    assert (found["rule"], found["fires"], found["more"]) == ("gelu", [], 0)
    (miss,) = found["misses"]
    assert (miss["kind"], miss["matched"], miss["total"], miss["others"]) == ("value", 4, 5, ["/y/Mul"])
    ran = run(gelus(tmp_path, 1), "-r", "gelu:gelu", "--json")
    assert result_in(ran.output)["rules"][0]["fires"] == [{"scope": "", "node": "/y/Mul"}]


def test_the_command_with_top_and_node_and_target(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(stack_of_different(3).SerializeToString())
    shown = run(path, "-r", "gelu:gelu", "--top", "1", "-v").output
    assert "  and 2 more for other reasons (--top shows more)" in shown
    first = run(path, "-r", "gelu:gelu", "--node", "e1").output.splitlines()[0]
    assert first == "m.onnx  gelu does not match at e1 (details: -v)"
    assert "needs opset 20" in run(gelus(tmp_path, 1), "-r", "gelu:gelu", "--target", "onnx").output


def test_the_command_needs_a_known_node_and_a_model(tmp_path: Path) -> None:
    path = gelus(tmp_path, 1)
    assert one_sentence(program("explain", path, "-r", "gelu", "--node", "/y/Mol"), 2).startswith(
        "Error: The model has no node or tensor '/y/Mol'; did you mean /y/Mul"
    )
    assert one_sentence(program("explain", tmp_path / "none.onnx", "-r", "gelu"), 2)


@pytest.mark.parametrize("name", [b"l0d", b"/l0d/Div", b"Erf", b"sqrt2"])
@pytest.mark.parametrize("more", [(), ("--json",), ("--node", "l0e")])
def test_names_that_are_not_utf_8_get_one_sentence_or_do_not_matter(
    tmp_path: Path, name: bytes, more: tuple[str, ...]
) -> None:
    path = near_gelus(tmp_path, 2)
    path.write_bytes(path.read_bytes().replace(name, name[:-1] + b"\xff"))
    ran = program("explain", path, "-r", "gelu", *more)
    if ran.exit_code:
        assert "not UTF-8" in one_sentence(ran, 2)


def test_an_operand_with_the_other_sign_is_reported():
    """Else it would say that it wants what it has found."""

    @rule(patterns=[lambda g, x, c: g.add(g.tanh(x), g.mul(x, c))])
    def leaky(g: Graph, x: Tensor, c: float) -> Tensor:
        return g.op("acme::leaky", x, c=c)

    text = "(float[n] x) => (float[n] y) <float c = {0.1}> { t = Tanh(x) m = Mul(x, c) y = Sub(t, m) }"
    (miss, *_) = explain(parse(text), leaky)
    assert miss.reason.startswith("expected Mul added in a sum, found Mul at 'm', subtracted")
