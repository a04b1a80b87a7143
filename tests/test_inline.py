"""Calls of local functions written out on request: what is meant, what stays, what goes, and what is refused."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, helper
from surgeon.patterns.activations.gelu import gelu
from surgeon.patterns.activations.selu import selu

import surgeon
from surgeon import GraphError, UsageError
from surgeon.testing import parse
from tests.command_line import one_sentence
from tests.command_line import run as command
from tests.hostile.bombs import bombs
from tests.models import graph, make, ops, opset
from tests.test_functions import FUNCTION, with_function
from tests.test_scopes import IF, branches, erf_form

HEADER = '<ir_version: 10, opset_import: ["" : 18, "my" : 1]> agraph '


def reference(node, name, attribute, kind=AttributeProto.FLOAT):
    """A node whose attribute refers to one of the function."""
    node.attribute.append(AttributeProto(name=name, type=kind, ref_attr_name=attribute))
    return node


def function(name, inputs, outputs, nodes, *attributes, opset_version=18, domains=(), defaults=()):
    """A local function of the domain my."""
    imports = [helper.make_opsetid(domain, number) for domain, number in (("", opset_version), *domains)]
    return helper.make_function("my", name, inputs, outputs, nodes, imports, list(attributes), list(defaults))


def model(call, *functions, head="(float[n, 4] x) => (float[n, 4] y)", constants=""):
    """A model with local functions."""
    made = graph(call, head, constants, header=HEADER)
    made.functions.extend(functions)
    return made


def inlined(before, names="all", rules=(), **settings):
    """Write out calls, every one of them proved, and hold both models against one another."""
    settings.setdefault("check", "both")
    after, report = surgeon.rewrite(before, rules, inline=names, require_proof=settings["check"] == "both", **settings)
    onnx.checker.check_model(after, full_check=True)
    return after, report


SCALED = function(
    "scaled",
    ["v"],
    ["w"],
    [
        reference(helper.make_node("Constant", [], ["c"]), "value_float", "factor"),
        helper.make_node("CastLike", ["c", "v"], ["d"]),
        helper.make_node("Mul", ["v", "d"], ["w"]),
    ],
    defaults=[helper.make_attribute("factor", 0.5)],
)
OUTER = function(
    "outer",
    ["v"],
    ["w"],
    [
        reference(helper.make_node("scaled", ["v"], ["s"], domain="my"), "factor", "by"),
        helper.make_node("Add", ["s", "v"], ["w"]),
    ],
    "by",
    domains=[("my", 1)],
)


class TestWhatIsWritten:
    """The nodes of the body mean what the call meant."""

    def test_the_nodes_of_the_body_stand_in_the_place_of_the_call(self):
        after, report = inlined(with_function(FUNCTION, call="a = Relu(x) h = my.block(a) y = Neg(h)"))
        assert ops(after.graph) == [
            "Relu",
            "Constant",
            "Constant",
            "Constant",
            "Div",
            "Erf",
            "Add",
            "Mul",
            "Mul",
            "Neg",
        ]
        assert report.counts == {"inline my::block": 1}
        assert [site.rule for site in report.sites] == ["inline my::block"]

    def test_a_function_that_nobody_calls_any_more_goes(self):
        after, _ = inlined(with_function(FUNCTION))
        assert not after.functions

    def test_what_nobody_called_before_stays(self):
        after, _ = inlined(
            model("y = my.scaled(x)", SCALED, function("unused", ["v"], ["w"], [helper.make_node("Neg", ["v"], ["w"])]))
        )
        assert [item.name for item in after.functions] == ["unused"]

    def test_attributes_and_defaults(self):
        after, _ = inlined(model("t = my.scaled<factor = 3.0>(x) y = my.scaled(t)", SCALED))
        assert ops(after.graph) == ["Mul", "Mul"]
        assert [onnx.numpy_helper.to_array(item).item() for item in after.graph.initializer] == [3.0, 0.5]

    def test_an_attribute_that_is_given_nowhere_is_left_out(self):
        body = [reference(helper.make_node("LeakyRelu", ["v"], ["w"]), "alpha", "slope")]
        after, _ = inlined(model("y = my.act(x)", function("act", ["v"], ["w"], body, "slope")))
        assert not after.graph.node[0].attribute

    def test_calls_inside_calls(self):
        after, _ = inlined(model("t = my.outer<by = 2.0>(x) y = my.scaled(t)", SCALED, OUTER))
        assert ops(after.graph) == ["Mul", "Add", "Mul"]
        assert not after.functions

    def test_only_those_that_are_named(self):
        after, report = inlined(
            model("t = my.outer<by = 2.0>(x) y = my.outer<by = 3.0>(t)", SCALED, OUTER), "my::outer"
        )
        assert ops(after.graph) == ["scaled", "Add", "scaled", "Add"]
        assert [node.attribute[0].f for node in after.graph.node[::2]] == [2.0, 3.0]
        assert [item.name for item in after.functions] == ["scaled"]
        assert len(report.sites) == 2

    def test_inside_another_function(self):
        after, report = inlined(model("y = my.outer<by = 2.0>(x)", SCALED, OUTER), ["my::scaled"])
        assert ops(after.graph) == ["outer"]
        (outer,) = after.functions
        assert ops(outer) == ["Constant", "CastLike", "Mul", "Add"]
        assert outer.node[0].attribute[0].ref_attr_name == "by"
        assert report.sites[0].scope == "function my::outer"

    def test_inputs_and_outputs_that_are_left_out(self):
        body = [helper.make_node("Clip", ["v", "low", "high"], ["w"]), helper.make_node("Neg", ["v"], ["u"])]
        clip = function("clip", ["v", "low", "high"], ["w", "u"], body)
        after, _ = inlined(model("t, a = my.clip(x) s, y = my.clip(t, , one)", clip, constants="float one = {1}"))
        assert ops(after.graph) == ["Clip", "Neg"]
        assert list(after.graph.node[0].input) == ["x"]

    def test_an_input_handed_on_and_an_output_given_twice(self):
        body = [helper.make_node("Tanh", ["v"], ["t"])]
        same = function("same", ["v"], ["v", "t", "t"], body)
        head = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)"
        after, _ = inlined(
            model("a, y, z = my.same(x)", same, head=head), check="none"
        )  # ONNX Runtime refuses the call
        assert sorted(ops(after.graph)) == ["Identity", "Tanh"]
        after, _ = inlined(model("a, b, z = my.same(x) y = Relu(a)", same, head=head), check="none")
        assert sorted(ops(after.graph)) == ["Relu", "Tanh"]

    def test_names_are_made_fresh(self):
        clash = "h_Mul = Tanh(x) h = my.scaled(h_Mul) c = Neg(h) d = Neg(c) y = my.scaled(d)"
        after, _ = inlined(model(clash, SCALED))
        names = [name for node in after.graph.node for name in node.output]
        assert len(names) == len(set(names))
        assert (
            len({node.name for node in after.graph.node}) == len([node for node in after.graph.node if node.name]) + 1
        )

    def test_half_precision_gets_its_constants_in_half(self):
        before = model("y = my.scaled<factor = 3.0>(x)", SCALED, head="(float16[n, 4] x) => (float16[n, 4] y)")
        after, _ = inlined(before)
        assert ops(after.graph) == ["Mul"]
        assert after.graph.initializer[0].data_type == onnx.TensorProto.FLOAT16

    def test_a_call_inside_a_branch(self):
        body = "y = If(flag) <then_branch = a () => (float[n, 4] p) { p = my.scaled<factor = 2.0>(x) }, "
        body += "else_branch = b () => (float[n, 4] q) { q = Neg(x) }>"
        after, report = inlined(model(body, SCALED, head="(float[n, 4] x, bool flag) => (float[n, 4] y)"))
        assert ops(after.graph) == ["If", "Mul", "Neg"]
        assert report.sites[0].scope

    def test_a_domain_that_only_the_function_imports(self):
        body = [helper.make_node("Gelu", ["v"], ["w"], domain="com.microsoft")]
        after, _ = inlined(model("y = my.act(x)", function("act", ["v"], ["w"], body, domains=[("com.microsoft", 1)])))
        assert {item.domain: item.version for item in after.opset_import} == {"": 18, "my": 1, "com.microsoft": 1}

    def test_an_opset_of_another_number_where_all_ops_mean_the_same(self):
        body = [helper.make_node("Cast", ["v"], ["c"], to=10), helper.make_node("CastLike", ["c", "v"], ["w"])]
        old = function("act", ["v"], ["w"], body, opset_version=15)
        before = model("y = my.act(x)", old)
        before.opset_import[0].version = 20
        after, _ = inlined(before)
        assert ops(after.graph) == ["Cast", "CastLike"]

    def test_overloads_are_distinguished(self):
        one, two = function("act", ["v"], ["w"], [helper.make_node("Tanh", ["v"], ["w"])]), onnx.FunctionProto()
        two.CopyFrom(one)
        two.node[0].op_type, one.overload, two.overload = "Sin", "one", "two"
        before = model("t = my.act(x) y = my.act(t)", one, two)
        before.graph.node[0].overload, before.graph.node[1].overload = "two", "one"
        after, _ = surgeon.rewrite(before, inline="all", check="none")
        assert ops(after.graph) == ["Sin", "Tanh"]
        assert not after.functions


class TestBodiesWithGraphs:
    """If, Loop and Scan inside a function."""

    def before(self, calls="h = Relu(x) z = my.block(h, flag) y = my.block(z, flag)"):
        """Two calls of a function that holds an If, which reads constants of the function."""
        nodes = branches(
            erf_form("v", "tr"),
            "er = Neg(v)",
            head="(float[n, 4] v, bool flag) => (float[n, 4] w)",
            after="w = Identity(r)",
            constants="",
        ).graph.node
        constants = graph(FUNCTION.partition("d = ")[0] + "y = Neg(x)").graph.node[:3]
        made = graph(calls, IF, header=opset(17))
        imports = [helper.make_opsetid("", 17)]
        made.functions.append(helper.make_function("my", "block", ["v", "flag"], ["w"], [*constants, *nodes], imports))
        return made

    def test_are_written_out_with_names_of_their_own(self):
        after, report = inlined(self.before())
        assert not after.functions
        assert len(report.sites) == 2
        inner = [
            item.name for node in after.graph.node for a in node.attribute if a.HasField("g") for item in a.g.output
        ]
        assert len(inner) == len(set(inner)) == 4

    def test_what_they_read_is_not_swept_by_other_rules(self):
        def relu(g, x):
            return g.relu(x)

        double = make(relu, lambda g, x: g.max(x, 0.0), name="as_max", target="any")
        after, report = inlined(self.before(), rules=double)
        assert report.count("as_max") == 1
        again, _ = surgeon.rewrite(after, gelu, require_proof=True)
        assert ops(again.graph).count("Gelu") == 2

    def test_calls_inside_them(self):
        nodes = branches(
            "tr = my.scaled<factor = 3.0>(v)",
            "er = Neg(v)",
            head="(float[n, 4] v, bool flag) => (float[n, 4] w)",
            after="w = Identity(r)",
            constants="",
        ).graph.node
        block = function("block", ["v", "flag"], ["w"], list(nodes), domains=[("my", 1)])
        before = model("y = my.block(x, flag)", SCALED, block, head=IF)
        after, _ = inlined(before)
        assert not after.functions
        after, _ = inlined(before, "my::block")
        assert [item.name for item in after.functions] == ["scaled"]
        assert "scaled" in ops(after.graph)

    def test_a_loop_that_reads_the_function_s_tensors(self):
        text = graph(
            "trips = Constant<value_int = 3>() go = Constant<value_int = 1>() yes = Cast<to = 9>(go) t = Tanh(x) "
            "y = Loop(trips, yes, x) <body = b (int64 i, bool c, float[n, 4] s) => (bool d, float[n, 4] r) "
            "{ d = Identity(c) half = Constant<value_float = 0.5>() m = Mul(t, half) r = Add(s, m) }>"
        ).graph.node
        before = model("h = Relu(x) t = my.sums(h) y = my.sums(t)", function("sums", ["x"], ["y"], list(text)))
        after, report = inlined(before)
        assert ops(after.graph).count("Loop") == 2
        assert len(report.sites) == 2


def test_large_constants_of_a_function_are_written_with_the_nodes(tmp_path):
    weight = np.arange(4096, dtype=np.float32).reshape(1024, 4)
    table = helper.make_node("Constant", [], ["table"], value=onnx.numpy_helper.from_array(weight, "table"))
    body = [table, helper.make_node("Gather", ["table", "v"], ["w"])]
    head = "(int64[n] x) => (float[n, 4] y)"
    before = model("y = my.look(x)", function("look", ["v"], ["w"], body), head=head)
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(before, source)
    surgeon.rewrite(source, inline="all", output=output, require_proof=True)
    after = onnx.load(output)
    assert ops(after.graph) == ["Constant", "Gather"]
    assert (onnx.numpy_helper.to_array(after.graph.node[0].attribute[0].t) == weight).all()


class TestWithRules:
    """Rules run on what was written out."""

    def test_they_see_the_nodes(self):
        after, report = inlined(with_function(FUNCTION, call="h = my.block(x) y = my.block(h)"), rules=gelu)
        assert ops(after.graph) == ["Gelu", "Gelu"]
        assert [site.rules for site in report.sites] == [("inline my::block", "gelu")] * 2
        assert not after.functions

    def test_without_a_call_they_see_the_body(self):
        after, report = surgeon.rewrite(with_function(FUNCTION), gelu, require_proof=True)
        assert ops(after.graph) == ["block"]
        assert ops(after.functions[0]) == ["Gelu"]
        assert report.sites[0].scope == "function my::block"

    def test_a_site_that_fails_leaves_its_call_and_the_function(self):
        def wrong(g, x):
            return g.sin(x)

        before = with_function("t = Tanh(v) w = Relu(t)", call="h = my.block(x) y = Sigmoid(h)")
        bad = make(lambda g, x: g.relu(g.tanh(x)), wrong)
        with pytest.raises(surgeon.CheckFailed) as caught:
            surgeon.rewrite(before, bad, inline="all")
        assert caught.value.result == before

    def test_only_and_skip_choose_calls(self):
        before = with_function(FUNCTION, call="h = my.block(x) y = my.block(h)")
        before.graph.node[0].name, before.graph.node[1].name = "first", "second"
        after, _ = inlined(before, skip="second")
        assert ops(after.graph).count("block") == 1
        assert len(after.functions) == 1


class TestRefused:
    """One sentence each."""

    def test_a_name_that_the_model_does_not_have(self):
        with pytest.raises(UsageError, match=r"no local function 'my::blok'. Did you mean my::block\?"):
            surgeon.rewrite(with_function(FUNCTION), inline="my::blok")
        with pytest.raises(UsageError, match="Its functions: none"):
            surgeon.rewrite(graph("y = Relu(x)"), inline="my::block")

    def test_a_body_older_than_its_ops(self):
        old = function("act", ["v"], ["w"], [helper.make_node("CastLike", ["v", "v"], ["w"])], opset_version=14)
        with pytest.raises(
            GraphError, match="its body has opset 14 but uses CastLike, which exists from opset 15; write"
        ):
            surgeon.rewrite(model("y = my.act(x)", old), inline="my::act")
        after, report = surgeon.rewrite(model("y = my.act(x)", old), inline="all", check="none")
        assert ops(after.graph) == ["act"]
        assert "CastLike, which exists from opset 15" in report.misses[0].reason

    def test_an_op_that_changed_between(self):
        axes = helper.make_node("ReduceMean", ["v"], ["w"], axes=[1])
        old = function("mean", ["v"], ["w"], [axes], opset_version=17)
        with pytest.raises(GraphError, match=r"ReduceMean changed at opset 18; write the body at opset 18"):
            surgeon.rewrite(model("y = my.mean(x)", old), inline="my::mean")


class TestAtTheCommandLine:
    """surgeon rewrite --inline."""

    def test_all(self, tmp_path):
        source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
        onnx.save(with_function(FUNCTION, call="h = my.block(x) y = my.block(h)"), source)
        options = ("--inline", "all", "--rules", "gelu", "--expect", "inline my::block=2", "-v")
        result = command("rewrite", source, output, *options)
        assert result.exit_code == 0, result.output
        assert "inline my::block" in result.output
        after = onnx.load(output)
        assert ops(after.graph) == ["Gelu", "Gelu"]

    def test_by_name_without_rules(self, tmp_path):
        source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
        onnx.save(model("t = my.outer<by = 2.0>(x) y = my.scaled(t)", SCALED, OUTER), source)
        result = command("rewrite", source, output, "--inline", "my::outer", "--inline", "my::scaled")
        assert result.exit_code == 0, result.output
        assert not onnx.load(output).functions


SELU = """
    alpha0 = Constant<value_float = 1.67326>() gamma0 = Constant<value_float = 1.0507>()
    zero0 = Constant<value_int = 0>()
    a = CastLike(alpha0, v) c = CastLike(gamma0, v) z = CastLike(zero0, v) e = Exp(v) m = Mul(a, e) s = Sub(m, a)
    n = Mul(c, s) p = Mul(c, v) b = LessOrEqual(v, z) w = Where(b, n, p)
"""


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_selu_with_the_numbers_of_the_function(dtype):
    """Inside the function, or where it was called."""
    before = with_function(SELU, opset_version=18, main=18, dtype=dtype)
    after, _ = surgeon.rewrite(before, selu, require_proof=True)
    assert (ops(after.graph), ops(after.functions[0])) == (["block"], ["Selu"])
    after, _ = inlined(before, "my::block", selu)
    (node,) = after.graph.node
    assert node.op_type == "Selu"
    assert {item.name: item.f for item in node.attribute} == pytest.approx(
        {"alpha": 1.67326, "gamma": 1.0507}, rel=1e-6 if dtype == "float" else 1e-3
    )
    x = np.linspace(-3, 3, 8).reshape(2, 4).astype(dtype.replace("float", "float32") if dtype == "float" else dtype)
    answers = [
        onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[
            0
        ]
        for proto in (before, after)
    ]
    np.testing.assert_allclose(*answers, rtol=2e-3 if dtype == "float16" else 1e-5, atol=1e-6)


def test_a_body_that_is_broken_stays_where_it_is():
    """Nobody's rule is to blame for it."""
    model = parse(
        """<ir_version: 10, opset_import: ["" : 17, "my" : 1]> g (float[n] x) => (float[n] y) { y = my.once(x) }
        <domain: "my", opset_import: ["" : 17]> once (p) => (q) { q = Relu(p) }"""
    )
    model.functions[0].node[0].op_type = "RelU"
    result, _ = surgeon.rewrite(model, "gelu", inline="all", check="none")
    assert result.SerializeToString() == model.SerializeToString()
    with pytest.raises(GraphError, match=r"my::once cannot be inlined: its body is invalid \(ai.onnx has no"):
        surgeon.rewrite(model, "gelu", inline="my::once", check="none")


def test_functions_that_come_to_too_many_nodes_are_refused(tmp_path):
    """Eighteen that each call the last twice: all of them are refused, and some of them by name are inlined."""
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    model = onnx.ModelProto.FromString(dict(bombs())["functions that call the last twice"])
    del model.functions[18:]
    model.graph.node[0].op_type = "F17"
    onnx.save(model, path)
    said = one_sentence(command("rewrite", path, out, "--rules", "gelu", "--inline", "all", "--check", "none"), 2)
    assert "Inlining my::F16 would give 131,072 nodes" in said
    assert not out.exists()
    words = ("--rules", "gelu", "--inline", "my::F17", "--check", "none")
    assert command("rewrite", path, out, *words).exit_code == 0
    assert ops(onnx.load(out).graph) == ["F16", "F16"]
