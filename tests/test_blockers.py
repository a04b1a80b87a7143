"""Why a match is refused: what each inner tensor is needed for, and who needs it."""

import pytest
from onnx import helper

from surgeon import Graph, GraphError, Tensor, rewrite
from surgeon.testing import parse
from tests.models import graph, make, matches, opset, reasons, run

TWO = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)"
IF = (
    "i = If (flag) <then_branch = t () => (float[n, 4] tr) {{ tr = {0}({1}) }}, else_branch = e () => "
    "(float[n, 4] er) {{ er = Neg(x) }}>"
)


def relu_tanh(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.tanh(x))


def siblings(g: Graph, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    return g.sin(x), g.cos(g.add(x, z))


@pytest.mark.parametrize(
    ("body", "head", "why"),
    [
        ("t = Tanh(x) y = Relu(t) [reader] z = Neg(t)", TWO, "is also read by 'reader'"),
        ("z = Tanh(x) y = Relu(z)", TWO, "'z' (output of 'z') cannot be removed: it is an output of the graph"),
        (
            "t = Tanh(x) y = Relu(t) " + IF.format("Abs", "t") + " z = Neg(i)",
            "(float[n, 4] x, bool flag) => (float[n, 4] y, float[n, 4] z)",
            "also read by 'tr' (in then_branch of i)",
        ),
    ],
)
def test_inner_tensors_that_someone_needs(body, head, why):
    model = graph(body, head)
    assert not matches(model, relu_tanh)
    assert why in reasons(model, relu_tanh)
    assert len(matches(model, lambda g, x: g.tanh(x))) == 1


def test_a_quantization_annotation_holds_its_tensor():
    model = graph("t = Tanh(x) y = Relu(t)")
    note = model.graph.quantization_annotation.add(tensor_name="t")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x")
    assert "'t' (output of 't') cannot be removed: it has a quantization annotation" in reasons(model, relu_tanh)
    model = graph("t = Tanh(x) y = Relu(t)")
    note = model.graph.quantization_annotation.add(tensor_name="x")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="t")
    assert "a quantization annotation uses it" in reasons(model, relu_tanh)


def test_a_training_binding_holds_its_tensor():
    model = graph("t = Tanh(x) y = Relu(t)")
    model.training_info.add().update_binding.add(key="w", value="t")
    assert "a training binding uses it" in reasons(model, relu_tanh)
    model = graph("t = Tanh(x) y = Relu(t)")
    algorithm = model.training_info.add().algorithm
    algorithm.node.append(helper.make_node("Neg", ["t"], ["g"]))
    assert "the training graph uses it" in reasons(model, relu_tanh)


def test_initializers_that_training_uses_stay():
    model = graph("p = Pow(x, three) y = Relu(p)", constants="float three = {3}")
    model.training_info.add().initialization_binding.add(key="three", value="init")
    after, _ = run(model, make(lambda g, x: g.relu(g.pow(x, 3.0)), lambda g, x: g.sin(x)), check="none")
    assert [tensor.name for tensor in after.graph.initializer] == ["three"]


@pytest.mark.parametrize(
    ("between", "blocked"),
    [
        ("k = Abs(w)", False),
        ("k = Abs(s)", True),
        ("u = Neg(s) k = Abs(u)", True),
        (IF.format("Abs", "s") + " k = Neg(i)", True),
        (IF.format("Abs", "w") + " k = Neg(i)", False),
    ],
)
def test_a_path_that_leaves_and_comes_back(between, blocked):
    model = graph(
        f"s = Sin(x) {between} a = Add(x, k) y = Cos(a) z = Neg(s)",
        "(float[n, 4] x, float[n, 4] w, bool flag) => (float[n, 4] y, float[n, 4] z)",
    )
    assert len(matches(model, siblings)) == (not blocked)
    if blocked:
        assert "is outside the match, but between two of its nodes" in reasons(model, siblings)


def test_a_path_that_comes_back_where_nothing_new_reads_it():
    """What a pattern lets be anything is of no use to a replacement, so it may depend on another output."""

    def grown(g: Graph, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        total = g.add(x, z)
        return g.cos(g.expand(total, g.any_tensor())), total

    grow = make(grown, lambda g, x, z: (g.cos(g.add(x, z)), g.add(x, z)), name="grow")
    body = "t = Add(x, w) s = Shape(t) e = Expand(t, s) y = Cos(e) z = Neg(t)"
    model = graph(body, "(float[n, 4] x, float[n, 4] w) => (float[n, 4] y, float[n, 4] z)")
    after, report = run(model, grow)
    assert len(report.sites) == 1
    assert not {"Shape", "Expand"} & {node.op_type for node in after.graph.node}
    looked_at = graph(
        body.replace("e = Expand(t, s)", "f = Cast<to = 1>(s) o = ReduceSum(f) e = Add(t, o)"),
        "(float[n, 4] x, float[n, 4] w) => (float[n, 4] y, float[n, 4] z)",
    )

    def added(g: Graph, x: Tensor, z: Tensor, o: Tensor) -> tuple[Tensor, Tensor]:
        total = g.add(x, z)
        return g.cos(g.add(g.capture("total", total), o)), total

    assert "is outside the match, but between two of its nodes" in reasons(looked_at, added)


def test_the_target_s_op_needs_a_younger_opset():
    from surgeon.patterns.activations.gelu import gelu

    model = graph("y = com.microsoft.Gelu(x)", header=opset(19))
    _, report = run(model, gelu, target="onnx", check="none")
    wanted = "needs opset 20 and the model has 19; raise it with: surgeon upgrade IN OUT --opset 20"
    assert wanted in report.misses[0].reason


def test_an_overridable_initializer_says_so():
    model = graph("m = Mul(x, c) y = Relu(m)", "(float[n, 4] x, float c) => (float[n, 4] y)", "float c = {0.5}")
    assert "a caller may override" in reasons(model, lambda g, x: g.relu(g.mul(x, 0.5)))


def test_the_reason_of_the_deepest_form_is_reported():
    """Of several forms the one that came furthest explains the miss."""

    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.any_of(g.exp(x), g.sigmoid(g.tanh(g.abs(x)))))

    why = reasons(graph("a = Ceil(x) t = Tanh(a) s = Sigmoid(t) y = Relu(s) z = Abs(x)", TWO), pattern)
    assert "expected Abs, found Ceil at 'a'" in why


def test_nothing_of_the_kind_in_the_model():
    assert reasons(graph("y = Neg(x)"), relu_tanh) in ("the model has no Relu", "the model has no Tanh")


def test_a_body_below_ir_4_gets_constant_nodes():
    """An initializer would have to be an input there, and the inputs of a body are given."""
    text = (
        '<ir_version: 3, opset_import: ["" : 9, "com.microsoft" : 1]> agraph (float[4] x, bool c) => (float[4] y) '
        "{ y = If (c) <then_branch = t () => (float[4] o) { o = com.microsoft.Gelu(x) }, "
        "else_branch = e () => (float[4] p) { p = Neg(x) }> }"
    )
    after, report = rewrite(parse(text), "gelu", target="decomposed")
    assert report.proved
    body = next(item.g for item in after.graph.node[0].attribute if item.name == "then_branch")
    assert not body.initializer
    assert "Constant" in [node.op_type for node in body.node]


def test_a_near_miss_beside_a_site_is_reported():
    """One GELU fires; the other has 0.4 for a half, and the report says so."""
    half = "d = Div(x, sqrt2) e = Erf(d) a = Add(e, one) m = Mul(x, a) g = Mul(m, half) "
    near = "d2 = Div(g, sqrt2) e2 = Erf(d2) a2 = Add(e2, one) m2 = Mul(g, a2) y = Mul(m2, other)"
    constants = "<float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}, float other = {0.4}>"
    _, report = rewrite(parse(f"(float[n, 4] x) => (float[n, 4] y) {constants} {{ {half}{near} }}"), "gelu")
    assert report.count("gelu") == 1
    assert any("expected the constant 0.5" in miss.reason for miss in report.misses)


def test_what_is_left_out_by_name_is_reported():
    """--only and --skip are a reason like any other."""
    text = "(float[n, 4] x) => (float[n, 4] y) <float k = {1.702}> { s = Mul(x, k) g = Sigmoid(s) y = Mul(x, g) }"
    _, report = rewrite(parse(text), "quick_gelu", only="k")  # which names an initializer
    assert [miss.reason for miss in report.misses] == ["--only excludes this node"]
    _, report = rewrite(parse(text), "quick_gelu", skip="*")
    assert [miss.reason for miss in report.misses] == ["--skip excludes this node"]


def test_a_model_without_an_opset_is_refused():
    """It is the input that is wrong, not the rule."""
    model = parse("(float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }")
    model.ClearField("opset_import")
    with pytest.raises(GraphError, match="imports no version"):
        rewrite(model, "gelu")
