"""Local functions that rules write: their bodies, attributes and imports, the calls, the errors, and the proofs."""

import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, helper

import surgeon
from surgeon import CheckOptions, Graph, GraphError, OpsetError, RuleError, Tensor, rule
from surgeon.file.model import Model
from surgeon.testing import parse
from tests.command_line import run as command
from tests.models import graph, ops

ADD = "custom.aten::custom_aten_add"
PLACEHOLDERS = "t = custom.aten.custom_aten_add<alpha = 2.5>(x, z) y = custom.aten.custom_aten_add(t, z)"
HEAD = "(float[n, 4] x, float[n, 4] z) => (float[n, 4] y)"


@surgeon.function(ADD)
def aten_add(g: Graph, x: Tensor, y: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x + alpha · y, y in the type of x."""
    other = g.cast_like(y, x)
    return g.add(x, g.mul(other, alpha))


def model(body=PLACEHOLDERS, head=HEAD, opset=18, ir_version=10, constants="<float[n, 4] t>", **domains):
    """A model from ONNX text that imports the domain of the placeholders."""
    imports = "".join(f', "{name}" : {number}' for name, number in ({"custom.aten": 1} | domains).items())
    return parse(
        f'<ir_version: {ir_version}, opset_import: ["" : {opset}{imports}]> agraph {head} {constants} {{ {body} }}'
    )


def answers(proto, **feeds):
    """What ONNX Runtime gives for it as it is."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def feeds():
    """Two inputs."""
    import numpy as np

    return {"x": np.arange(8, dtype=np.float32).reshape(2, 4), "z": np.ones((2, 4), np.float32)}


@pytest.fixture
def implementation(tmp_path):
    """What the placeholder computes, in Python."""
    path = tmp_path / "add.py"
    path.write_text(
        f"import surgeon\n\n@surgeon.implements({ADD!r})\ndef add(x, y, *, alpha=1.0):\n"
        "    return (x + alpha * y.astype(x.dtype)).astype(x.dtype)\n"
    )
    return CheckOptions(custom_ops=[path])


class TestAFunctionAsARule:
    """A placeholder has the very name of the function: it gets the body, and so becomes a call."""

    def test_runs_as_it_is(self):
        after, report = surgeon.rewrite(model(), aten_add, check="none")
        assert ops(after.graph) == ["custom_aten_add", "custom_aten_add"]
        assert report.counts == {"custom_aten_add": 2}
        onnx.checker.check_model(after, full_check=True)
        given = feeds()
        assert (answers(after, **given) == given["x"] + 3.5 * given["z"]).all()

    def test_writes_one_function_for_all_calls(self):
        (function,) = surgeon.rewrite(model(), aten_add, check="none")[0].functions
        assert (function.domain, function.name, list(function.input)) == ("custom.aten", "custom_aten_add", ["x", "y"])
        assert [(item.domain, item.version) for item in function.opset_import] == [("", 18)]
        assert ops(function) == ["CastLike", "Constant", "CastLike", "Mul", "Add"]
        (constant,) = [node for node in function.node if node.op_type == "Constant"]
        assert (constant.attribute[0].name, constant.attribute[0].ref_attr_name) == ("value_float", "alpha")
        (default,) = function.attribute_proto
        assert (default.name, default.f) == ("alpha", 1.0)

    def test_its_opset_is_that_of_the_model(self):
        for opset in (15, 17, 20):
            after, _ = surgeon.rewrite(model(opset=opset), aten_add, check="none")
            assert [item.version for item in after.functions[0].opset_import] == [opset]
            onnx.checker.check_model(after, full_check=True)

    def test_is_proved_against_what_the_placeholder_computes(self, implementation):
        _, report = surgeon.rewrite(model(), aten_add, options=implementation)
        assert [site.outcome for site in report.sites] == ["proved", "proved"]
        assert all(proof.independent for proof in report.proofs)

    def test_without_that_it_is_unproved_and_says_why(self):
        _, report = surgeon.rewrite(model(), aten_add)
        assert [site.outcome for site in report.sites] == ["unproved", "unproved"]
        assert "the original nodes cannot run" in report.sites[0].reason

    def test_a_wrong_body_fails_and_leaves_no_function_behind(self, implementation):
        @surgeon.function(ADD)
        def wrong(g: Graph, x: Tensor, y: Tensor, *, alpha: float = 1.0) -> Tensor:
            return g.sub(x, g.mul(y, alpha))

        with pytest.raises(surgeon.CheckFailed, match="rolled back") as caught:
            surgeon.rewrite(model(), wrong, options=implementation)
        assert caught.value.result == model()

    def test_nothing_else_in_the_file_changes(self):
        before = model("t = custom.aten.custom_aten_add<alpha = 2.5>(x, z) y = Relu(t)")
        before.metadata_props.add(key="kept", value="as it is")
        before.graph.node[1].metadata_props.add(key="kept", value="too")
        after, _ = surgeon.rewrite(before, aten_add, check="none")
        del after.functions[:]
        assert after.graph.node[1] == before.graph.node[1]
        after.graph.node[0].CopyFrom(before.graph.node[0])
        assert after == before

    def test_defaults_and_whole_numbers_become_the_attribute_s_kind(self):
        body = "t = custom.aten.custom_aten_add<alpha = 2>(x, z) y = custom.aten.custom_aten_add(t, z)"
        after, _ = surgeon.rewrite(model(body), aten_add, check="none")
        assert [(item.type, item.f) for node in after.graph.node for item in node.attribute] == [
            (AttributeProto.FLOAT, 2.0),
            (AttributeProto.FLOAT, 1.0),
        ]

    def test_calls_inside_bodies_and_functions_too(self):
        branch = (
            "y = If(flag) <then_branch = a () => (float[n, 4] p) { p = custom.aten.custom_aten_add(x, z) }, "
            "else_branch = b () => (float[n, 4] q) { q = Relu(x) }>"
        )
        before = model(branch, "(float[n, 4] x, float[n, 4] z, bool flag) => (float[n, 4] y)", constants="")
        after, report = surgeon.rewrite(before, aten_add, check="none")
        assert report.sites[0].scope
        assert len(after.functions) == 1
        onnx.checker.check_model(after, full_check=True)

    def test_a_node_that_does_not_fit_stays_and_says_why(self):
        def why(body):
            after, report = surgeon.rewrite(model(body, constants=""), aten_add, check="none")
            assert not report.sites
            assert not after.functions
            return report.misses[0].reason

        assert "3 inputs and 1 outputs" in why("y = custom.aten.custom_aten_add(x, z, z)")
        assert "attribute beta, which local function" in why("y = custom.aten.custom_aten_add<beta = 1.0>(x, z)")
        assert "the model has no node custom.aten::custom_aten_add without a definition" in why("y = Add(x, z)")

    def test_nodes_of_its_name_that_stay_keep_it_out(self, implementation):
        """They would become calls too, unasked and unproved."""
        before = model()
        before.graph.node[1].name = "kept"
        with pytest.raises(surgeon.CheckFailed, match="node 'kept' would also call the new local function"):
            surgeon.rewrite(before, aten_add, options=implementation, skip="kept")
        after, report = surgeon.rewrite(before, aten_add, check="none", skip="kept", keep_going=True)
        assert after == before
        assert not report.sites

    def test_one_that_fails_its_proof_takes_the_others_along(self, implementation):
        @surgeon.function(ADD)
        def rounded(g: Graph, x: Tensor, y: Tensor, *, alpha: float = 1.0) -> Tensor:
            return g.add(x, g.mul(y, g.floor(g.cast_like(g.constant(value_float=alpha), y))))

        with pytest.raises(surgeon.CheckFailed) as caught:
            surgeon.rewrite(model(), rounded, options=implementation)
        assert caught.value.result == model()
        assert [site.outcome for site in caught.value.report.rolled_back] == ["failed", "proved"]

    def test_a_second_run_changes_nothing(self):
        once, _ = surgeon.rewrite(model(), aten_add, check="none")
        twice, report = surgeon.rewrite(once, aten_add, check="none")
        assert not report.sites
        assert once == twice

    def test_by_name_from_a_file_of_functions(self, tmp_path):
        path = tmp_path / "functions.py"
        path.write_text(
            "import surgeon\nfrom surgeon import Graph, Tensor\n\n"
            f"@surgeon.function({ADD!r})\ndef mine(g: Graph, x: Tensor, y: Tensor, *, alpha: float = 1.0) -> Tensor:\n"
            "    return g.add(x, g.mul(y, alpha))\n"
        )
        source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
        onnx.save(model(), source)
        for rules in (path, f"{path}:custom_aten_add"):
            output.unlink(missing_ok=True)
            result = command("rewrite", source, output, "--rules", rules)
            assert result.exit_code == 0, result.output
            assert [function.name for function in onnx.load(output).functions] == ["custom_aten_add"]


class TestCallsThatRulesWrite:
    """A replacement may call a function, or write its body out."""

    def test_kept_as_a_function(self):
        @rule(patterns=[aten_add.body])
        def fold(g: Graph, x: Tensor, y: Tensor, alpha: float) -> Tensor:
            return aten_add(g, x, y, alpha=alpha)

        before = graph("c = CastLike(x, x) h = Mul(c, two) y = Add(x, h)", constants="float two = {2}", header=HEADER)
        after, report = surgeon.rewrite(before, fold, require_proof=True)
        assert ops(after.graph) == ["custom_aten_add"]
        assert {item.domain: item.version for item in after.opset_import} == {"": 18, "custom.aten": 1}
        assert after.graph.node[0].attribute[0].f == 2.0
        assert len(report.sites) == 1
        onnx.checker.check_model(after, full_check=True)

    def test_its_body_is_found_inside_the_function_and_where_it_was_written_out(self):
        @surgeon.function("my::shifted")
        def shifted(g: Graph, x: Tensor, *, by: float, slope: float) -> Tensor:
            return g.leaky_relu(g.add(x, g.cast_like(g.constant(value_float=by), x)), alpha=slope)

        @rule(patterns=[shifted.body])
        def found(g: Graph, x: Tensor, by: float, slope: float) -> Tensor:
            return g.op("my::found", x, by=by, slope=slope)

        nodes = "b = Constant<value_float = 3.0>() c = CastLike(b, x) a = Add(x, c) y = LeakyRelu<alpha = 0.25>(a)"
        for body in (nodes, nodes.replace("c = CastLike(b, x)", "c = Identity(b)")):
            after, report = surgeon.rewrite(graph(body, header=HEADER), found, check="none")
            assert ops(after.graph) == ["found"], report.misses
            assert [item.f for item in after.graph.node[0].attribute] == [3.0, 0.25]

    def test_written_out(self, implementation):
        @rule(patterns=[aten_add])
        def write(g: Graph, x: Tensor, y: Tensor, alpha: float) -> Tensor:
            return aten_add.inline(g, x, y, alpha=alpha)

        after, report = surgeon.rewrite(model(), write, options=implementation, require_proof=True)
        assert ops(after.graph) == ["CastLike", "Mul", "Add"] * 2
        assert not after.functions
        assert len(report.sites) == 2

    def test_straight_to_add_where_alpha_is_1(self, implementation):
        @rule(patterns=[aten_add])
        def add(g: Graph, x: Tensor, y: Tensor, alpha: float) -> Tensor:
            return g.add(x, y) if alpha in (1, None) else aten_add(g, x, y, alpha=alpha)

        after, report = surgeon.rewrite(model(), add, options=implementation, require_proof=True)
        assert ops(after.graph) == ["custom_aten_add", "Add"]
        assert len(report.sites) == 2

    def test_a_call_in_place_of_itself_ends(self):
        @rule(patterns=[aten_add], target="any")
        def again(g: Graph, x: Tensor, y: Tensor, alpha: float) -> Tensor:
            return aten_add(g, x, y, alpha=alpha)

        _, report = surgeon.rewrite(model(), again, check="none")
        assert len(report.sites) == 2
        assert not report.misses  # the nodes that are calls already are its own

    def test_functions_that_call_functions_come_along(self):
        @surgeon.function("my::twice")
        def twice(g: Graph, x: Tensor) -> Tensor:
            return aten_add(g, x, x)

        @rule(patterns=[lambda g, x: g.tanh(x)])
        def doubled(g: Graph, x: Tensor) -> Tensor:
            return twice(g, x)

        before = graph("y = Tanh(x)", header=HEADER)
        after, _ = surgeon.rewrite(before, doubled, check="none")
        assert [function.name for function in after.functions] == ["twice", "custom_aten_add"]
        assert {item.domain for item in after.functions[0].opset_import} == {"", "custom.aten"}
        onnx.checker.check_model(after, full_check=True)
        assert (answers(after, x=feeds()["x"]) == 2 * feeds()["x"]).all()

    def test_several_outputs_and_kinds_of_attributes(self):
        @surgeon.function("my::split")
        def split(g: Graph, x: Tensor, *, axes: list[int], axis: int = 1, by: float = 0.5) -> tuple[Tensor, Tensor]:
            wide = g.reduce_sum(x, axes, keepdims=1)
            return g.softmax(g.mul(wide, by), axis=axis), g.leaky_relu(x, alpha=by)

        @rule(patterns=[lambda g, x: (g.tanh(x), g.sin(x))])
        def written(g: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
            return split(g, x, axes=[1], by=0.25)

        before = graph("y = Tanh(x) z = Sin(x)", "(float[n, 4] x) => (float[n, 1] y, float[n, 4] z)", header=HEADER)
        after, _ = surgeon.rewrite(before, written, check="none")
        (function,) = after.functions
        assert len(function.output) == 2
        assert sorted(function.attribute) == ["axes"]
        assert {item.name for item in function.attribute_proto} == {"axis", "by"}
        references = {
            item.ref_attr_name: item.type for node in function.node for item in node.attribute if item.ref_attr_name
        }
        assert references == {"axes": AttributeProto.INTS, "axis": AttributeProto.INT, "by": AttributeProto.FLOAT}
        onnx.checker.check_model(after, full_check=True)

    def test_an_equal_function_is_used_again(self):
        once, _ = surgeon.rewrite(model(), aten_add, check="none")
        once.graph.node[1].domain, once.graph.node[1].op_type = "", "Sub"
        del once.graph.node[1].attribute[:]

        @rule(patterns=[lambda g, x, y: g.sub(x, y)])
        def negative(g: Graph, x: Tensor, y: Tensor) -> Tensor:
            return aten_add(g, x, y, alpha=-1.0)

        after, report = surgeon.rewrite(once, negative, require_proof=True)
        assert ops(after.graph) == ["custom_aten_add", "custom_aten_add"]
        assert len(after.functions) == 1
        assert len(report.sites) == 1


HEADER = '<ir_version: 10, opset_import: ["" : 18]> agraph '


class TestErrors:
    """Each is one sentence that says what to do."""

    def test_another_function_of_this_name(self):
        @surgeon.function(ADD)
        def other(g: Graph, x: Tensor, y: Tensor, *, alpha: float = 1.0) -> Tensor:
            return g.add(x, y)

        @rule(patterns=[lambda g, x, y: g.sub(x, y)])
        def negative(g: Graph, x: Tensor, y: Tensor) -> Tensor:
            return other(g, x, y)

        once, _ = surgeon.rewrite(model("t = custom.aten.custom_aten_add(x, z) y = Sub(t, z)"), aten_add, check="none")
        with pytest.raises(GraphError, match="another local function custom.aten::custom_aten_add. Give yours"):
            surgeon.rewrite(once, negative)

    def test_no_functions_below_ir_8(self):
        _, report = surgeon.rewrite(model(ir_version=7, constants=""), aten_add, check="none")
        assert not report.sites
        assert "need IR version 8, but the model has 7; write the nodes instead" in report.misses[0].reason

    def test_no_defaults_below_ir_9(self):
        after, _ = surgeon.rewrite(model(ir_version=8, constants=""), aten_add, check="none")
        (function,) = after.functions
        assert (list(function.attribute), len(function.attribute_proto)) == (["alpha"], 0)
        assert [node.attribute[0].f for node in after.graph.node] == [2.5, 1.0]
        onnx.checker.check_model(after, full_check=True)

    def test_castlike_below_opset_15(self):
        _, report = surgeon.rewrite(model(opset=14), aten_add, check="none")
        assert not report.sites
        sentence = "ai.onnx has no CastLike at opset 14; CastLike needs opset 15. Raise the opset of the model: surgeon"
        assert sentence in report.misses[0].reason

    def test_a_number_needs_castlike_too(self):
        @surgeon.function("my::half")
        def half(g: Graph, x: Tensor) -> Tensor:
            return g.mul(x, 0.5)

        @rule(patterns=[lambda g, x: g.tanh(x)])
        def written(g: Graph, x: Tensor) -> Tensor:
            return half(g, x)

        before = graph("y = Tanh(x)", header=HEADER.replace("18", "14"))
        _, report = surgeon.rewrite(before, written, check="none")
        assert "CastLike, which exists from opset 15" in report.misses[0].reason
        after, _ = surgeon.rewrite(graph("y = Tanh(x)", header=HEADER), written, check="none")
        assert ops(after.functions[0]) == ["Constant", "CastLike", "Mul"]

    @pytest.mark.parametrize("op", ["nodomain", "::Name", "ai.onnx::Add", "domain::"])
    def test_a_name_without_a_domain(self, op):
        with pytest.raises(RuleError, match="needs its own domain"):
            surgeon.function(op)(lambda g, x: x)

    def test_an_attribute_without_a_kind(self):
        with pytest.raises(RuleError, match="has an attribute 'alpha' without a type"):

            @surgeon.function("my::f")
            def f(g, x, *, alpha=1.0):
                return g.mul(x, alpha)

    def test_an_attribute_that_is_no_keyword(self):
        with pytest.raises(RuleError, match=r"has 'alpha' among its tensors\. To make it an attribute,"):

            @surgeon.function("my::f")
            def f(g, x, alpha: float = 1.0):
                return g.mul(x, alpha)

    def test_a_variable_number_of_inputs(self):
        with pytest.raises(RuleError, match=r"has a parameter \*rest"):

            @surgeon.function("my::f")
            def f(g, *rest):
                return g.sum(*rest)

    def test_arguments_that_do_not_fit(self):
        @rule(patterns=[lambda g, x: g.tanh(x)])
        def wrong(g: Graph, x: Tensor) -> Tensor:
            return aten_add(g, x, x, gamma=1.0)

        with pytest.raises(RuleError, match="takes x, y, alpha, but a call gives 'gamma'"):
            surgeon.rewrite(graph("y = Tanh(x)", header=HEADER), wrong)

    def test_a_value_of_another_kind(self):
        @rule(patterns=[lambda g, x: g.tanh(x)])
        def wrong(g: Graph, x: Tensor) -> Tensor:
            return aten_add(g, x, x, alpha="much")

        with pytest.raises(RuleError, match="'alpha' of local function .* must have type FLOAT, got 'much'"):
            surgeon.rewrite(graph("y = Tanh(x)", header=HEADER), wrong)

    def test_a_body_that_returns_nothing(self):
        @surgeon.function("my::f")
        def f(g, x):
            g.relu(x)

        @rule(patterns=[lambda g, x: g.tanh(x)])
        def wrong(g: Graph, x: Tensor) -> Tensor:
            return f(g, x)

        with pytest.raises(RuleError, match="my::f must return one or more tensors"):
            surgeon.rewrite(graph("y = Tanh(x)", header=HEADER), wrong)

    def test_a_body_that_breaks_a_schema(self):
        @surgeon.function("my::f")
        def f(g, x):
            return g.leaky_relu(x, x)

        @rule(patterns=[lambda g, x: g.tanh(x)])
        def wrong(g: Graph, x: Tensor) -> Tensor:
            return f(g, x)

        with pytest.raises(RuleError, match="LeakyRelu"):
            surgeon.rewrite(graph("y = Tanh(x)", header=HEADER), wrong)


class TestAFunctionProto:
    """What other tools wrote may be taken as it is."""

    def proto(self, opset=18, op="Selu"):
        nodes = [helper.make_node("CastLike", ["x", "x"], ["t"]), helper.make_node(op, ["t"], ["y"])]
        return helper.make_function("my", "act", ["x"], ["y"], nodes, [helper.make_opsetid("", opset)])

    def before(self, opset=18):
        return graph("y = my.act(x)", header=f'<ir_version: 9, opset_import: ["" : {opset}, "my" : 1]> agraph ')

    def test_becomes_the_body_of_placeholders(self):
        after, _ = surgeon.rewrite(self.before(), surgeon.function(self.proto()), check="none")
        assert after.functions[0] == self.proto()
        onnx.checker.check_model(after, full_check=True)

    @pytest.mark.parametrize("opset", [15, 17, 20, 25])
    def test_goes_into_a_model_of_another_opset_where_its_ops_mean_the_same(self, opset):
        after, _ = surgeon.rewrite(self.before(opset), surgeon.function(self.proto()), check="none")
        assert [item.version for item in after.functions[0].opset_import] == [opset]
        onnx.checker.check_model(after, full_check=True)

    def test_is_refused_where_they_do_not(self):
        nodes = [helper.make_node("ReduceMean", ["x"], ["y"], axes=[1])]
        old = helper.make_function("my", "act", ["x"], ["y"], nodes, [helper.make_opsetid("", 17)])
        _, report = surgeon.rewrite(self.before(20), surgeon.function(old), check="none")
        assert not report.sites
        assert "but ReduceMean changed at opset 18; write the body at opset 20" in report.misses[0].reason
        nodes = [helper.make_node("ReduceMean", ["x", "a"], ["y"]), helper.make_node("Shape", ["x"], ["a"])][::-1]
        new = helper.make_function("my", "act", ["x"], ["y"], nodes, [helper.make_opsetid("", 18)])
        _, report = surgeon.rewrite(self.before(17), surgeon.function(new), check="none")
        assert "but ReduceMean changed at opset 18; write the body at opset 17" in report.misses[0].reason

    def test_a_body_older_than_its_ops_is_refused_at_once(self):
        sentence = "CastLike exists from opset 15, but the body of local function my::act has opset 14. Write"
        with pytest.raises(OpsetError, match=sentence):
            surgeon.function(self.proto(opset=14))

    def test_what_is_none_is_refused(self):
        with pytest.raises(RuleError, match="Expected a name"):
            surgeon.function(3)

    def test_is_written_out_too(self):
        act = surgeon.function(self.proto())

        @rule(patterns=[act])
        def written(g: Graph, x: Tensor) -> Tensor:
            return act.inline(g, x)

        after, _ = surgeon.rewrite(self.before(), written, check="none")
        assert ops(after.graph) == ["CastLike", "Selu"]


def test_a_call_that_leaves_out_an_attribute_has_the_function_s_default():
    once, _ = surgeon.rewrite(model(), aten_add, check="none")
    del once.graph.node[1].attribute[:]
    seen = []

    @rule(patterns=[aten_add])
    def look(g: Graph, x: Tensor, y: Tensor, alpha: float) -> Tensor:
        seen.append(alpha)
        return aten_add.inline(g, x, y, alpha=alpha)

    surgeon.rewrite(once, look, require_proof=True)
    assert sorted({alpha for alpha in seen if isinstance(alpha, float)}) == [1.0, 2.5]


def test_weights_stay_in_the_file(tmp_path):
    """A function is appended; what lies before it is copied as it is."""
    import numpy as np

    before = model("w1 = Mul(x, big) t = custom.aten.custom_aten_add<alpha = 2.5>(w1, z) y = Relu(t)", constants="")
    before.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((4096, 4), np.float32), "big"))
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(before, source)
    surgeon.rewrite(source, aten_add, output=output, check="none")
    with Model.open(source) as one, Model.open(output) as other:
        assert one.payload_bytes == other.payload_bytes > 0
    assert onnx.load(output).functions[0].name == "custom_aten_add"


def test_a_call_keeps_the_name_of_its_placeholder():
    before = model()
    before.graph.node[0].name = "/layer/add"
    after, _ = surgeon.rewrite(before, aten_add, check="none")
    assert after.graph.node[0].name == "/layer/add"


def test_the_manual_names_the_file_and_the_formula(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import surgeon\n\n@surgeon.function('my::twice')\ndef twice(g, x):\n    '''2 · x.'''\n    return g.add(x, x)\n"
    )
    result = command("rules", path)
    assert result.exit_code == 0, result.output
    assert "mine.py:3" in result.output
    assert "2 · x." in result.output
