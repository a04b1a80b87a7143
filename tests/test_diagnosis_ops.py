"""Ops that a target does not have: which link is missing, where the node came from, and what helps."""

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.runtime.sessions.ort_session import OrtSession
from surgeon.testing import parse
from tests.onnx_cases import onnx_cases
from tests.test_custom_op_library import build

HEADER = '<ir_version: 9, opset_import: ["" : {opset}{more}]> g '
STACK = """File "/home/me/train/model.py", line 12, in forward
    y = torch.ops.mylibrary.addandround_op(x, x)
  File "/usr/lib/python3/site-packages/torch/_ops.py", line 1208, in __call__
    return self._op(*args, **kwargs)"""


def model(body, opset=17, functions="", **domains):
    """A model from ONNX text; domains by name with their versions, "_" for "."."""
    more = "".join(f', "{name.replace("_", ".")}" : {version}' for name, version in domains.items())
    return parse(f"{HEADER.format(opset=opset, more=more)}(float[n, 4] x) => (float[n, 4] y) {{ {body} }} {functions}")


def only(made, target="ort", **settings):
    """The one finding of a model."""
    (found,) = surgeon.check(made, target, **settings)
    return found


def test_a_placeholder_is_reported_once_with_its_count_its_line_and_the_missing_link():
    made = model("a = mylibrary.addandround_op(x, x) y = mylibrary.addandround_op(a, x)", mylibrary=1)
    made.graph.node[0].name = "/layer/op"
    made.graph.node[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=STACK)
    found = only(made)
    assert (found.op, found.count, found.nodes, found.stops) == (
        "mylibrary::addandround_op",
        2,
        ["/layer/op", "y"],
        True,
    )
    library = "no custom-op library for domain 'mylibrary' was given"
    assert found.reason == f"ONNX Runtime does not have this op, and {library}"
    assert found.came_from == "model.py:12 in forward: y = torch.ops.mylibrary.addandround_op(x, x)"
    assert found.chain == "torch op mylibrary::addandround_op -> [no mapping] -> ONNX op (or kernel)"
    assert any("--custom-ops" in text for text in found.helps)
    assert any("local function" in text for text in found.helps)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("pkg.torch.onnx.name_scopes", "['', 'encoder', 'encoder.3', 'relu_1']", "module encoder.3"),
        ("pkg.torch.onnx.name_scopes", "[broken", ""),
        ("pkg.torch.onnx.stack_trace", "no frame at all", ""),
    ],
)
def test_where_a_node_came_from(key, value, message):
    made = model("y = mine.op(x)", mine=1)
    made.graph.node[0].metadata_props.add(key=key, value=value)
    assert only(made).came_from == message


def test_the_note_of_the_torchscript_exporter():
    made = model("y = mine.op(x)", mine=1)
    made.graph.node[
        0
    ].doc_string = "/home/me/net.py(7): forward\n/usr/lib/torch/nn/modules/module.py(1500): _slow_forward\n"
    assert only(made).came_from == "net.py:7 in forward"


def test_the_torch_op_behind_a_node():
    made = model("y = Gellu(x)")
    call = "%g : [num_users=1] = call_function[target=torch.ops.aten.gelu.default](args = (%x,), kwargs = {})"
    made.graph.node[0].metadata_props.add(key="pkg.torch.onnx.fx_node", value=call)
    found = only(made)
    assert found.chain == "torch op aten::gelu -> mapping -> [no ai.onnx::Gellu]"
    assert "did you mean Gelu, Elu or Selu?" in found.helps


def test_no_torch_op_is_named_where_a_rule_or_an_edit_wrote_the_node():
    """A rule's node has the notes of one of those that it stands for; a plugin's op is none of torch's."""
    call = "%g : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, 1.0), kwargs = {})"
    made = model("t = Tanh(x) y = Add(t, x)")
    made.producer_name = "pytorch"
    for node in made.graph.node:
        node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=call)
    written = surgeon.rule(patterns=[lambda g, x: g.add(g.tanh(x), x)], target="any", name="leaky")
    after, _ = surgeon.rewrite(made, written(lambda g, x: g.op("acme::LeakyMish", x)), check="none")
    found = only(after)
    assert (found.op, found.torch_op, found.chain) == ("acme::LeakyMish", "", "")
    plugin = model("y = trt.plugins.EfficientNMS_TRT(x)", trt_plugins=1)
    plugin.producer_name = "pytorch"
    assert (only(plugin).torch_op, only(plugin).chain) == ("", "")


def test_an_op_that_comes_with_a_newer_opset():
    found = only(model("y = Gelu(x)"))
    assert (found.kind, found.reason) == ("opset", "ai.onnx 17 does not have this op; opset 20 added it")
    assert found.helps[0] == "rule gelu fires: surgeon rewrite IN OUT --rules gelu --target contrib"
    assert any("export the model at opset 20" in text for text in found.helps)
    assert surgeon.check(model("y = Gelu(x)", opset=20)) == []


SELU = """<domain: "custom", opset_import: ["" : {inner}]> Selu (X) => (Y)
    {{ a = Constant<value = float {{1.5}}>() b = CastLike(a, X) Y = Mul(b, X) }}"""


def test_castlike_in_the_function_of_an_older_opset_is_found_and_mended():
    """The body of opset 14 that ONNX Runtime refuses with: No Op registered for CastLike with domain_version of 14."""
    found = only(model("y = custom.Selu(x)", 14, SELU.format(inner=14), custom=1))
    assert found.reason == "ai.onnx 14 does not have this op; opset 15 added it"
    assert found.nodes == ["b (function custom::Selu)"]
    assert found.helps[0].startswith(
        "import ai.onnx 15 or later in function custom::Selu and in the model"
    )
    mended = model("y = custom.Selu(x)", 15, SELU.format(inner=15), custom=1)
    assert surgeon.check(mended) == surgeon.check(mended, "onnx") == []
    onnx.checker.check_model(mended)
    with OrtSession(mended) as session:
        (result,) = session.run({"x": np.ones((2, 4), np.float32)}).values()
    assert (result == 1.5).all()


def test_a_domain_of_onnx_runtime_s_own():
    made = model("y = com.microsoft.Gelu(x)", 20, com_microsoft=1)
    assert surgeon.check(made) == []
    found = only(made, "onnx")
    assert found.reason == "ONNX does not have this op of ONNX Runtime"
    assert found.helps[0] == "rule gelu fires: surgeon rewrite IN OUT --rules gelu --target onnx"
    older = only(model("y = com.microsoft.Gelu(x)", com_microsoft=1), "onnx")
    assert older.helps[0] == "rule lower_gelu fires: surgeon rewrite IN OUT --rules lower_gelu --target onnx"


def test_a_kernel_that_the_cpu_does_not_have():
    body = "y = com.microsoft.BiasSplitGelu(x, x)"
    found = only(model(body, com_microsoft=1))
    assert (found.kind, found.link) == ("kernel", "kernel")
    assert found.reason == "ONNX Runtime has no kernel for it on CPU"
    assert found.chain == ""
    of_torch = model(body, com_microsoft=1)
    of_torch.producer_name = "pytorch"
    assert only(of_torch).chain == "torch op -> mapping -> [no kernel for com.microsoft::BiasSplitGelu]"
    assert "use another execution provider: cuda, dml" in found.helps
    assert surgeon.check(model(body, com_microsoft=1), ep="cuda") == []


def test_dtypes_that_no_kernel_takes():
    body = "a = Cast<to = 16>(x) b = Round(a) y = Cast<to = 1>(b)"
    found = only(model(body, opset=22))
    assert found.reason == "ONNX Runtime has no kernel for it on CPU in bfloat16"
    assert "cast its input to float32, and its output back" in found.helps


def test_what_falls_back_to_the_cpu_is_reported_and_stops_nothing():
    found = only(model("y = Elu(x)", 22), ep="cuda")
    assert found.reason == "ONNX Runtime has no kernel for it on CUDA, so it runs on the CPU"
    assert not found.stops


def test_what_draws_at_random_as_in_training_is_reported_and_stops_nothing():
    """As torch's exporters write a model that is not in eval mode."""
    training = "part = Constant<value_float = 0.1>() yes = Constant<value = bool {{{}}}>() y = Dropout(x, part, yes)"
    found = only(model(training.format(1)))
    assert (found.kind, found.reason) == ("advice", "it generates random numbers, because training_mode is true")
    assert (found.helps, found.stops) == (["export the model after model.eval()"], False)
    assert not surgeon.check(model(training.format(0)))


def test_a_node_that_breaks_its_schema():
    body = "a = Cast<to = 16>(x) b = Elu(a) c = Cast<to = 1>(b) y = Relu<alpha = 1.0>(c)"
    first, second = surgeon.check(model(body, 19))
    assert (first.kind, second.kind) == ("schema", "schema")
    assert first.reason.startswith("The input 'X' of Elu is tensor(bfloat16)")
    assert "cast its input to float32" in first.helps[-1]
    assert second.reason.startswith("Relu has no attribute 'alpha'")


def test_nodes_in_bodies_and_functions_are_looked_at_and_calls_are_fine():
    made = parse(
        """<ir_version: 9, opset_import: ["" : 17, "mine" : 1]> g (bool c, float[2] x) => (float[2] y) {
        y = If(c) <then_branch = t () => (float[2] t1) { t1 = other.In_body(x) },
                   else_branch = e () => (float[2] e1) { e1 = mine.Function(x) }> }
        <domain: "mine", opset_import: ["" : 17, "third" : 1]> Function (p) => (q) { q = third.In_function(p) }"""
    )
    made.opset_import.add(domain="other", version=1)
    places = {one.op: one.nodes for one in surgeon.check(made)}
    assert places == {
        "other::In_body": ["t1 (then_branch of y)"],
        "third::In_function": ["q (function mine::Function)"],
    }


def test_placeholders_of_torch_s_own_exporter():
    found = only(model('y = org.pytorch.aten.ATen<operator = "asinh">(x)', org_pytorch_aten=1))
    assert found.chain.startswith("torch op aten::asinh -> [no mapping]")
    assert found.helps[0].startswith("rule named_arguments fires: surgeon rewrite IN OUT --rules named_arguments")
    lost = only(model("y = prim.PythonOp<inplace = 0>(x)", prim=1))
    assert len(lost.helps) == 1
    assert "the exporter did not write its name" in lost.helps[0]


def test_a_plugin_is_nothing_for_onnx_runtime():
    found = only(model("a, b, c, d = trt.plugins.EfficientNMS_TRT(x, x) y = Relu(x)", trt_plugins=1))
    assert found.reason.startswith("it is a plugin of TensorRT")


def test_an_implementation_in_python_is_not_an_op_of_onnx_runtime(tmp_path):
    """The finding says that surgeon can run the op, but the runtime cannot load the model."""
    path = tmp_path / "ops.py"
    path.write_text("import surgeon\n\n@surgeon.implements('mine::op')\ndef op(x):\n    return x\n")
    made = model("a = mine.op(x) y = mine.other(a)", mine=1)
    found = {one.op: one.reason for one in surgeon.check(made, custom_ops=[path])}
    assert found["mine::op"] == "ONNX Runtime does not have this op, and only surgeon runs its Python implementation"
    assert found["mine::other"] == "ONNX Runtime does not have this op, and no given library has it"


def test_onnx_runtime_has_the_last_word():
    """The layout of a GRU is in ONNX, and its kernel refuses it: that is told in ONNX Runtime's words."""
    body = "h = GRU<hidden_size = 4, layout = 1>(three, w, r) a = Shape(h) y = Relu(x)"
    made = parse(
        f"""<ir_version: 9, opset_import: ["" : 17]> g
        (float[n, 4] x, float[1, 1, 4] three, float[1, 12, 4] w, float[1, 12, 4] r) => (float[n, 4] y) {{ {body} }}"""
    )
    found = only(made)
    assert (found.kind, found.stops) == ("load", True)
    assert found.reason.startswith("ONNX Runtime does not load the model: ")
    assert surgeon.check(made, load=False) == []


def test_onnx_s_own_cases_stop_where_onnx_runtime_does_not_load_them_and_nowhere_else():
    """What is found without a look at ONNX Runtime's own word is never wrong."""
    false, agreed = [], 0
    for case in onnx_cases()[::14]:
        found = [one for one in surgeon.check(case.model, load=False) if one.stops]
        try:
            with OrtSession(case.model):
                false += [case.name] if found else []
                agreed += not found
        except surgeon.SurgeonError:
            agreed += bool(found)
    assert not false
    assert agreed > 100


def test_a_target_without_sense():
    with pytest.raises(surgeon.UsageError, match="No target named 'contrib'"):
        surgeon.check(model("y = Relu(x)"), "contrib")
    with pytest.raises(surgeon.UsageError, match="Omit ep"):
        surgeon.check(model("y = Relu(x)"), "onnx", ep="cpu")


def test_a_rule_that_finds_all_places_of_a_placeholder_is_the_only_advice():
    found = only(model("a = aten.asinh(x) y = aten.asinh(a)", aten=1))
    assert found.helps == ["rule aten_elementwise fires: surgeon rewrite IN OUT --rules aten_elementwise"]


def test_why_a_rule_that_looks_for_a_placeholder_does_not_fire():
    """The call that lost its arguments on the way is told with those that are missing."""
    made = parse(
        """<ir_version: 9, opset_import: ["" : 19, "custom" : 1]> g (float[1, 2, 5, 5] x, float[3, 2, 3, 3] w,
        float[1, 18, 3, 3] o) => (float[1, 3, 3, 3] y) { y = custom.deform_conv2d<stride_h = 1>(x, w, o) }"""
    )
    first = only(made).helps[0]
    assert first.startswith(
        "rule deform_conv matches such nodes, but does not fire (the node lacks mask, bias, stride_w"
    )
    assert first.endswith("surgeon explain IN --rules deform_conv")


@pytest.mark.parametrize("mark", ["producer", "domain", "note", ""])
def test_nothing_is_said_of_torch_for_a_model_that_torch_did_not_make(mark):
    """torch names itself as the producer, in its domains, or in what it notes of nodes."""
    made = model("y = mine.op(x)", mine=1)
    made.producer_name = "pytorch" if mark == "producer" else "tf2onnx"
    if mark == "domain":
        made.opset_import.add(domain="pkg.onnxscript.torch_lib", version=1)
    if mark == "note":
        made.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'act', 'relu']")
    found = only(made)
    said = f"{found.chain} {found.torch_op} {' '.join(found.helps)}"
    if mark:
        assert found.chain == "torch op mine::op -> [no mapping] -> ONNX op (or kernel)"
    else:
        assert "torch" not in said
    rule = "replace it with a rule: surgeon rewrite IN OUT --rules FILE.py"
    assert rule in found.helps


def test_a_rule_whose_result_does_not_run_either_is_no_advice():
    """In bfloat16 the CPU has neither Erf nor Gelu; in float32 nothing is amiss."""
    body = "c = Cast<to = 16>(x) d = Div(c, s) e = Erf(d) f = Add(e, o) g = Mul(c, f) h = Mul(g, t) y = Cast<to = 1>(h)"
    weights = "bfloat16 s = {16309}, bfloat16 o = {16256}, bfloat16 t = {16128}"  # √2, 1 and ½, as their bits
    made = parse(f'<ir_version: 10, opset_import: ["" : 22]> g (float[n] x) => (float[n] y) <{weights}> {{ {body} }}')
    found = surgeon.check(made)
    assert "ai.onnx::Erf" in {one.op for one in found}
    assert not [text for one in found for text in one.helps if text.startswith("rule ")]


def test_a_rule_that_is_far_from_the_place_is_no_advice():
    """com.microsoft::Gelu is in patterns of rules for GELU with a bias; only a rule for GELU itself helps."""
    older = only(model("y = com.microsoft.Gelu(x)", com_microsoft=1), "onnx")
    assert [text.split()[1] for text in older.helps if text.startswith("rule ")] == ["lower_gelu"]


def test_a_rule_that_changes_numbers_is_no_advice_where_an_exact_one_does_all():
    """fast_gelu finds what gelu finds."""
    found = only(model("y = Gelu(x)"))
    assert [text.split()[1] for text in found.helps if text.startswith("rule ")] == ["gelu"]


def test_a_library_of_custom_ops_has_what_it_has(tmp_path):
    """A library cannot be asked for its ops; ONNX Runtime tries the node."""
    library = build(tmp_path / "custom_ops.so")
    body = "a = test.customop.CustomOpOne(x, x) y = test.customop.CustomOpNine(a)"
    made = model(body, test_customop=1)
    assert [one.op for one in surgeon.check(made)] == ["test.customop::CustomOpOne", "test.customop::CustomOpNine"]
    assert [one.op for one in surgeon.check(made, custom_ops=[library])] == ["test.customop::CustomOpNine"]
