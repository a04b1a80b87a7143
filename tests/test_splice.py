"""The only module that edits: names, order, redirects, orphans, provenance, chained rules and rules without end."""

import numpy as np
import onnx_graphsurgeon as gs
import pytest
from onnx import TensorProto, helper
from surgeon.patterns.activations.gelu import gelu

from surgeon import Graph, Tensor, rule
from surgeon.ir.verify_rewrite import new_violations
from surgeon.testing import Case, check_fires
from tests.models import graph, make, ops, opset, run

BACK_AND_FORTH = "a = Transpose<perm = [1, 0]>(x) y = Transpose<perm = [1, 0]>(a)"


def transpose_pair(g: Graph, x: Tensor, first: list[int], second: list[int]) -> Tensor:
    return g.transpose(g.transpose(x, perm=first), perm=second)


@rule(patterns=[transpose_pair])
def transposes(g: Graph, x: Tensor, first: list[int], second: list[int]) -> Tensor:
    """Two transposes are one, or none."""
    both = [first[axis] for axis in second]
    return x if both == sorted(both) else g.transpose(x, perm=both)


@rule(patterns=[lambda g, x: g.tanh(x)])
def tanh_to_sin(g: Graph, x: Tensor) -> Tensor:
    return g.sin(x)


def test_an_input_handed_on_redirects_its_readers():
    model = graph("a = Transpose<perm = [1, 0]>(x) b = Transpose<perm = [1, 0]>(a) c = Relu(b) y = Mul(b, c)")
    after, report = run(model, transposes)
    assert [(node.op_type, list(node.input)) for node in after.graph.node] == [("Relu", ["x"]), ("Mul", ["x", "c"])]
    assert report.proved
    assert all(node.name == "" and not node.metadata_props for node in after.graph.node)


def test_an_input_handed_on_redirects_readers_in_bodies():
    text = (
        "a = Transpose<perm = [1, 0]>(x) b = Transpose<perm = [1, 0]>(a) y = If (flag) <then_branch = t () => "
        "(float[n, 4] tr) { tr = If (flag) <then_branch = i () => (float[n, 4] ir) { ir = Relu(b) }, "
        "else_branch = j () => (float[n, 4] jr) { jr = Neg(b) }> }, "
        "else_branch = e () => (float[n, 4] er) { er = Add(b, x) }>"
    )
    after, report = run(graph(text, "(float[n, 4] x, bool flag) => (float[n, 4] y)"), transposes)
    assert report.proved
    assert ops(after.graph) == ["If", "If", "Relu", "Neg", "Add"]


def test_a_redirect_never_lands_on_a_shadowing_name():
    """The body has a tensor of its own that is called like the one handed on."""
    text = (
        "a = Transpose<perm = [1, 0]>(x) b = Transpose<perm = [1, 0]>(a) y = If (flag) <then_branch = t () => "
        "(float[n, 4] tr) { q = Neg(b) tr = Relu(b) }, else_branch = e () => (float[n, 4] er) { er = Neg(b) }>"
    )
    model = graph(text, "(float[n, 4] x, bool flag) => (float[n, 4] y)")
    then = next(item.g for item in model.graph.node[2].attribute if item.name == "then_branch")
    then.node[0].output[0] = "x"
    after, _ = run(model, transposes, check="none")
    body = next(item.g for node in after.graph.node for item in node.attribute if item.name == "then_branch")
    assert body.node[1].input[0] == "b"
    assert [node.op_type for node in after.graph.node] == ["Identity", "If"]


@pytest.mark.parametrize("more", ["", ", float[n, 4] z"])
def test_an_input_handed_on_to_an_output_of_the_graph_keeps_the_name(more):
    extra = " z = Relu(y)" if more else ""
    model = graph(f"{BACK_AND_FORTH}{extra}", f"(float[n, 4] x) => (float[n, 4] y{more})")
    after, report = run(model, transposes)
    assert [node.op_type for node in after.graph.node] == ["Identity", "Relu"][: 1 + bool(extra)]
    assert report.proved


def test_the_harness_lets_readers_of_what_was_handed_on_change():
    check_fires(Case(transposes, "handed on", graph(f"{BACK_AND_FORTH.replace('y =', 'b =')} y = Relu(b)")))


def test_two_outputs_may_be_one_tensor_or_an_input():
    both = make(lambda g, x: (g.tanh(x), g.relu(x)), lambda g, x: [g.sin(x)] * 2, name="both")
    model = graph("t = Tanh(x) z = Relu(x) y = Add(t, z)")
    after, _ = run(model, both, check="none")
    assert [(node.op_type, list(node.input), list(node.output)) for node in after.graph.node] == [
        ("Sin", ["x"], ["t"]),
        ("Add", ["t", "t"], ["y"]),
    ]
    one = make(lambda g, x: (g.tanh(x), g.relu(x)), lambda g, x: (x, g.sin(x)), name="one")
    after, _ = run(model, one, check="none")
    assert [(node.op_type, list(node.input)) for node in after.graph.node] == [("Sin", ["x"]), ("Add", ["x", "z"])]


def test_an_orphan_with_bodies_lets_go_what_they_capture():
    text = (
        "k = Neg(x) i = If (flag) <then_branch = t () => (float[n, 4] tr) { tr = Relu(k) }, else_branch = e () => "
        "(float[n, 4] er) { er = Add(k, half) }> z = my.drop(x, i) y = Relu(z)"
    )
    model = graph(text, "(float[n, 4] x, bool flag) => (float[n, 4] y)", "float half = {1}", opset(17))
    drop = make(lambda g, x, i: g.op("my::drop", x, i), lambda g, x, i: g.sin(x), name="drop")
    after, _ = run(model, drop, check="none")
    assert ops(after.graph) == ["Sin", "Relu"]
    assert not after.graph.initializer


def test_readers_are_counted_once_after_a_redirect():
    """x is read by Add already; when Add goes, what made x goes with it."""
    pair = "a = Transpose<perm = [1, 0]>(u) b = Transpose<perm = [1, 0]>(a)"
    model = graph(f"u = Neg(x) {pair} s = Add(u, b) y = Relu(s)")

    @rule(patterns=[lambda g, p: g.relu(g.add(p, p))])
    def zero(g: Graph, p: Tensor) -> Tensor:
        return g.cast(g.isnan(g.random_normal(shape=[1, 4])), to="float")

    after, _ = run(model, [transposes, zero], check="none")
    assert ops(after.graph) == ["RandomNormal", "IsNaN", "Cast"]


@pytest.mark.parametrize("where", ["main", "function"])
def test_a_constant_as_a_replacement(where):
    @rule(patterns=[lambda g, x: g.shape(g.op("my::fixed", x))])
    def known(g: Graph, x: Tensor) -> Tensor:
        return gs.Constant("four", np.array([4], np.int64))

    body = "f = my.fixed({0}) s = Shape(f) {1} = Expand({0}, s)"
    if where == "main":
        model = graph(body.format("x", "y"), header=opset(17))
        after, _ = run(model, known, check="none")
        place = after.graph
    else:
        model = graph("y = my.block(x)", header=opset(17))
        nodes = graph(body.format("v", "w"), header=opset(17)).graph.node
        model.functions.append(helper.make_function("my", "block", ["v"], ["w"], nodes, model.opset_import))
        after, _ = run(model, known, check="none")
        place = after.functions[0]
    assert ops(place) == ["Constant", "Expand"]
    assert place.node[0].output[0] == "s"


def test_what_a_replacement_makes_constant_is_one_for_the_next_rule():
    @rule(patterns=[lambda g, x: g.op("my::half", x)])
    def halves(g: Graph, x: Tensor) -> Tensor:
        return gs.Constant("half", np.array(0.5, np.float32))

    @rule(patterns=[lambda g, x: g.mul(g.relu(x), 0.5)])
    def scaled(g: Graph, x: Tensor) -> Tensor:
        return g.elu(x)

    model = graph("h = my.half(x) r = Relu(x) y = Mul(r, h)", header=opset(17))
    after, _ = run(model, [scaled, halves], check="none")
    assert ops(after.graph) == ["Elu"]


def siblings(g: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
    return g.sin(x), g.cos(x)


@rule(patterns=[siblings])
def sin_cos(g: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
    return g.op("my::sincos", x, outputs=2)


def test_consumers_in_between_move_and_only_they():
    model = graph(
        "s = Sin(x) [other] o = Abs(x) u = Relu(s) v = Neg(u) c = Cos(x) a = Add(v, c) y = Add(a, o)", header=opset(17)
    )
    after, report = run(model, sin_cos, check="none")
    assert len(report.sites) == 1
    assert not new_violations(model, after)
    kept = {node.SerializeToString() for node in model.graph.node}
    moved = [node.op_type for node in after.graph.node if node.SerializeToString() in kept]
    assert ops(after.graph)[0] in ("sincos", "Abs")
    assert moved == ["Abs", "Relu", "Neg", "Add", "Add"]


def test_consumers_that_must_move_do():
    """The second output needs a tensor that is made behind a reader of the first."""
    model = graph(
        "s = Sin(x) u = Relu(s) k = Abs(w) l = Neg(u) p = Add(x, k) c = Cos(p) a = Add(l, c) y = Neg(a)",
        "(float[4] x, float[4] w) => (float[4] y)",
    )

    @rule(patterns=[lambda g, x, z: (g.sin(x), g.cos(g.add(x, z)))])
    def both(g: Graph, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        joined = g.sin(g.concat(x, g.add(x, g.add(z, np.pi / 2)), axis=0))
        return g.split(joined, axis=0, outputs=2)

    after, report = run(model, both)
    assert report.proved
    assert [node.output[0] for node in after.graph.node if not node.metadata_props] == ["k", "u", "l", "a", "y"]


def test_a_moved_node_keeps_the_edits_in_its_body():
    text = (
        "s = Sin(x) b = If (flag) <then_branch = t () => (float[4] tr) { p = Transpose<perm = [0]>(s) "
        "q = Transpose<perm = [0]>(p) tr = Tanh(q) }, else_branch = e () => (float[4] er) { er = Tanh(s) }> "
        "k = Abs(w) c = Cos(k) y = Add(b, c)"
    )
    model = graph(text, "(float[4] x, float[4] w, bool flag) => (float[4] y)", header=opset(17))

    @rule(patterns=[lambda g, x, k: (g.sin(x), g.cos(k))])
    def both(g: Graph, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return g.op("my::pair", x, k, outputs=2)

    for rules in ([both, transposes, tanh_to_sin], [transposes, tanh_to_sin, both]):
        after, _ = run(model, rules, check="none")
        assert not new_violations(model, after)
        assert "Tanh" not in ops(after.graph)
        assert ops(after.graph).count("Sin") == (3 if "pair" not in ops(after.graph) else 2)


def test_names_are_unique_across_scopes_and_readable():
    text = (
        "a = Tanh(x) b = Tanh(a) y = If (flag) <then_branch = t () => (float[n, 4] tr) { tr = Tanh(b) }, "
        "else_branch = e () => (float[n, 4] er) { er = Neg(b) }>"
    )
    model = graph(text, "(float[n, 4] x, bool flag) => (float[n, 4] y)")
    then, other = (item.g for item in model.graph.node[2].attribute)
    for node in (*model.graph.node, *then.node):
        node.name = "/layer.3/act/" + node.op_type
    other.node[0].name = "/layer.3/act/Sin"
    after, report = run(model, tanh_to_sin, check="none")
    names = [node.name for node in after.graph.node[:2]]
    names += [node.name for item in after.graph.node[2].attribute for node in item.g.node]
    assert len(set(names)) == 4
    assert all(name.startswith("/layer.3/act/Sin") for name in names)
    assert len(report.sites) == 3


def test_unnamed_and_equally_named_nodes():
    model = graph("[n] a = Tanh(x) [n] b = Tanh(a) c = Tanh(b) y = Tanh(c)")
    after, report = run(model, tanh_to_sin, check="none")
    assert [site.root for site in report.sites] == ["n", "n", "c", "y"]
    assert len({node.name for node in after.graph.node}) == 4


def test_dead_value_info_and_orphans_go_and_the_rest_stays():
    body = (
        "dead = Neg(x) d = Div(x, sqrt2) e = Erf(d) sh = Shape(x) g0 = Gather(sh, zero) u = Unsqueeze(g0, zeros) "
        "a = Add(e, one) m = Mul(x, a) h = Mul(m, half) k = Add(h, one) r = my.reshape(k, u) y = Identity(r)"
    )
    constants = (
        "float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}, float unused = {7.0}, "
        "int64 zero = {0}, int64[1] zeros = {0}"
    )
    model = graph(body, constants=constants, header=opset(17))
    for name in ("e", "h", "dead", "sqrt2", "half", "u", "y2"):
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    @rule(patterns=[lambda g, x, s: g.op("my::reshape", x, s)])
    def no_reshape(g: Graph, x: Tensor, s: Tensor) -> Tensor:
        return g.relu(x)

    after, report = run(model, [gelu, no_reshape], check="none")
    assert ops(after.graph) == ["Neg", "Gelu", "Add", "Relu", "Identity"]
    assert [tensor.name for tensor in after.graph.initializer] == ["one", "unused"]
    assert [value.name for value in after.graph.value_info] == ["h", "dead", "y2"]
    assert {node.op for site in report.sites for node in site.swept} == {"Shape", "Gather", "Unsqueeze"}


def test_constant_nodes_that_only_the_match_used_go():
    body = (
        "c = Constant<value_float = 1.4142135>() one = Constant<value_float = 1.0>() "
        "half = Constant<value_float = 0.5>() s = Cast<to = 1>(half) d = Div(x, c) e = Erf(d) a = Add(e, one) "
        "m = Mul(x, a) g = Mul(m, s) y = Add(g, one)"
    )
    after, _ = run(graph(body), gelu)
    assert ops(after.graph) == ["Constant", "Gelu", "Add"]
    assert after.graph.node[0].output[0] == "one"


def test_provenance():
    model = graph("t = Tanh(x) y = Neg(t)")
    inner, root = model.graph.node
    inner.name, root.name = "/a/Relu", "/a/Root"
    root.doc_string = "line 12"
    root.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="layer")
    after, _ = run(model, make(lambda g, x: g.neg(g.tanh(x)), lambda g, x: g.sin(g.abs(x)), name="trig"), check="none")
    for node in after.graph.node:
        assert node.doc_string == "line 12"
        assert {item.key: item.value for item in node.metadata_props} == {
            "pkg.torch.onnx.name_scopes": "layer",
            "surgeon.from": "/a/Relu, /a/Root",
            "surgeon.rule": "trig",
        }


def test_unsorted_models():
    model = graph("s = Sin(x) c = Cos(x) y = Add(s, c)", header=opset(17))
    nodes = list(model.graph.node)
    model.graph.ClearField("node")
    model.graph.node.extend([nodes[2], nodes[0], nodes[1]])
    after, _ = run(model, [sin_cos], check="none")
    assert sorted(ops(after.graph)) == ["Add", "sincos"]


@pytest.mark.parametrize("ir_version", [3, 4, 8])
def test_below_ir_4_initializers_are_inputs(ir_version):
    head = "(float[n, 4] x, float sqrt2, float one, float half) => (float[n, 4] y)"
    constants = "float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}"
    body = "d = Div(x, sqrt2) e = Erf(d) a = Add(e, one) m = Mul(x, a) g = Mul(m, half) y = Tanh(g)"
    powers = make(lambda g, x: g.tanh(x), lambda g, x: g.pow(x, 3.0), name="powers")
    model = graph(body, head, constants, opset(9, ir_version))
    after, report = run(model, [gelu, powers], check="none")
    inputs = [value.name for value in after.graph.input]
    initializers = [tensor.name for tensor in after.graph.initializer]
    if ir_version < 4:
        assert len(report.sites) == 2
        assert ops(after.graph) == ["Gelu", "Pow"]
        assert inputs == ["x", *initializers]
    else:
        assert ops(after.graph) == ["Div", "Erf", "Add", "Mul", "Mul", "Pow"]
        assert inputs == ["x", "sqrt2", "one", "half"]
