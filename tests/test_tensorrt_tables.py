"""TensorRT: its plugins as a table, a node held against them, its ops and what it does not take of them, the target."""

import onnx
import pytest

import surgeon
from surgeon import Graph, RuleError, Tensor, rule
from surgeon.ops.plugins.builtin_plugins import names_plugin, plugin_of, plugins
from surgeon.ops.schemas.node_check import check_node, infer_output_dtypes
from surgeon.targets.tensorrt.support_matrix import tensorrt_ops
from surgeon.testing import parse
from tests.command_line import run

HEADER = '<ir_version: 9, opset_import: ["" : {opset}{more}]> g '
DEFORM = (
    'stride = [1, 1], padding = [0, 0], dilation = [1, 1], group = 1, deformable_group = 1, plugin_version = "2", '
    'plugin_namespace = ""'
)
NMS = (
    "score_threshold = 0.1, iou_threshold = 0.5, max_output_boxes = 10, background_class = -1, score_activation = 0, "
    "box_coding = 1"
)


def model(body, head="(float[2, 4] x) => (float[2, 4] y)", opset=17, more="", functions=""):
    """A model from ONNX text."""
    return parse(f"{HEADER.format(opset=opset, more=more)}{head} {{ {body} }} {functions}")


def node_of(text, domain="trt.plugins"):
    """One node from ONNX text."""
    made = model(f"{text}", more=', "d" : 1').graph.node[0]
    made.domain = domain
    return made


def plugin(call, domain="trt.plugins", **dtypes):
    """What is said of a node for a plugin."""
    return " ".join(check_node(node_of(call, domain), 1, dtypes.get))


def test_the_table_holds_every_version_of_a_plugin_once():
    versions = [(one.name, one.version) for found in plugins().values() for one in found]
    assert len(versions) == len(set(versions)) > 80
    assert all(one.attributes for one in plugins()["EfficientNMS_TRT"])


def test_what_the_table_says_of_the_deformable_convolution():
    old, new = plugins()["ModulatedDeformConv2d"]
    assert (old.version, old.deprecated, new.version, new.deprecated) == ("1", "10.11", "2", "")
    assert [port.name for port in new.inputs] == ["x", "offset", "mask", "weight", "bias"]
    assert all(spec.required for spec in new.attributes.values())
    assert list(new.attributes) == ["stride", "padding", "dilation", "group", "deformable_group"]


def changed(old, new, inputs="x, o, m, w, b", outputs="y"):
    """A call of the deformable convolution, one part of its attributes written differently."""
    assert old in DEFORM
    return f"{outputs} = d.ModulatedDeformConv2d<{DEFORM.replace(old, new, 1)}>({inputs})"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (changed("", ""), ""),
        (changed("", "", "x, o, m, w"), ""),
        (changed("", "", "x, o, , w, b"), "'mask' of ModulatedDeformConv2d is required"),
        (changed("", "", "x, o, m"), "4 to 5 inputs (x, offset, mask, weight, bias (optional))"),
        (changed("", "", outputs="y, z"), "1 output (output), but this node has 2"),
        (changed("group = 1", "group = 1, strides = [1]"), "TensorRT would ignore it; the nearest are stride"),
        (changed("group = 1", "group = 1, group = 2"), "'group' of ModulatedDeformConv2d twice"),
        (changed("[1, 1]", "[1]"), "'stride' of ModulatedDeformConv2d must have 2 numbers, not 1"),
        (changed("group = 1", "group = 1.5"), "must be an integer"),
        (changed(", group = 1", ""), "needs the attribute 'group'"),
        (changed('"2"', '"7"'), "no version '7'"),
        (changed('"2"', "2"), "must be a string"),
        (changed('= ""', '= "mine"'), "is in the default namespace"),
        (f"a, b, c, e = d.EfficientNMS_TRT<{NMS}>(x, s)", ""),
        (f"a, b, c, e = d.EfficientNMS_TRT<{NMS.replace('coding = 1', 'coding = 3')}>(x, s)", "but must be 0 or 1"),
        ("y = d.ModulatedDeformConv(x)", "no plugin 'ModulatedDeformConv'; did you mean 'ModulatedDeformConv2d'?"),
        ("a, b, c, e = d.BatchedNMS_TRT(x, s)", "removed in TensorRT 11.0; use EfficientNMS_TRT or NonMaxSuppression"),
    ],
)
def test_a_node_against_its_plugin(call, words):
    found = plugin(call)
    assert words in found if words else found == ""


def test_dtypes_of_a_plugin_s_inputs_must_go_together():
    call = f"y = d.ModulatedDeformConv2d<{DEFORM}>(x, o, m, w, b)"
    assert plugin(call, x=10, o=10, m=10, w=10, b=10) == ""
    assert "but must be float or float16" in plugin(call, x=11)
    assert "'x' and 'w' of ModulatedDeformConv2d must have the same dtype" in plugin(call, x=1, w=10)


def test_what_a_plugin_makes_is_known_from_its_inputs():
    known = {"x": 10, "s": 10}
    infer_output_dtypes(node_of(f"a, b, c, e = d.EfficientNMS_TRT<{NMS}>(x, s)"), 1, known)
    assert [known[name] for name in "abce"] == [6, 10, 10, 6]


@pytest.mark.parametrize(
    ("domain", "name", "is_meant"),
    [("", "EfficientNMS_TRT", True), ("TRT", "Anything", True), ("", "ScatterND", False), ("", "LayerNorm", False),
     ("mine", "EfficientNMS_TRT", False)],
)  # fmt: skip
def test_which_nodes_are_meant_for_plugins(domain, name, is_meant):
    """Names that an op of ONNX has too are that op, and those that TensorRT has no more are mistakes."""
    assert names_plugin(domain, name) is is_meant


def test_the_list_of_ops_is_onnx_s():
    ops = tensorrt_ops()
    strangers = {name for name in ops if not onnx.defs.has(name)}
    assert strangers == {"ImageScaler", "ParametricSoftplus", "ScaledTanh"}  # of ONNX before its first release
    assert sum(not op.supported for op in ops.values()) == 42
    assert "bfloat16" not in ops["DeformConv"].types


def placeholder(g: Graph, x: Tensor, offset: Tensor, weight: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
    return g.op("custom::deform", x, weight, offset, mask, bias)


@rule(patterns=[placeholder], target="onnx", opset=19)
def deform(g: Graph, x: Tensor, offset: Tensor, weight: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
    """Write the deformable convolution."""
    return g.op("DeformConv", x, weight, offset, bias, mask, pads=[0, 0, 0, 0])


SETTINGS = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "group": 1, "deformable_group": 1}


@deform.on("tensorrt")
def _(g: Graph, x: Tensor, offset: Tensor, weight: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
    settings = {**SETTINGS, "plugin_version": "2", "plugin_namespace": ""}
    return g.op("trt.plugins::ModulatedDeformConv2d", x, offset, mask, weight, bias, **settings)


HEAD = (
    "(float[1, 2, 5, 5] x, float[1, 18, 3, 3] o, float[3, 2, 3, 3] w, float[1, 9, 3, 3] m, float[3] b) "
    "=> (float[1, 3, 3, 3] y)"
)


def test_a_rule_writes_the_plugin_for_tensorrt_and_the_op_for_all_others():
    made = model("y = custom.deform(x, w, o, m, b)", HEAD, 19, ', "custom" : 1')
    for target, op in (("tensorrt", "ModulatedDeformConv2d"), ("ort", "DeformConv"), ("onnx", "DeformConv")):
        after, report = surgeon.rewrite(made, deform, target=target, check="none")
        assert [node.op_type for node in after.graph.node] == [op]
        assert len(report.sites) == 1
    after, _ = surgeon.rewrite(made, deform, target="tensorrt", check="none")
    assert {entry.domain: entry.version for entry in after.opset_import}["trt.plugins"] == 1
    back, _ = surgeon.rewrite(after, deform, target="onnx", check="none")
    assert [node.op_type for node in back.graph.node] == ["DeformConv"]


def test_a_rule_that_writes_a_wrong_plugin_node_is_a_wrong_rule():
    @rule(patterns=[placeholder], target="tensorrt")
    def wrong(g: Graph, x: Tensor, offset: Tensor, weight: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        """Write a word that the plugin does not have."""
        return g.op("trt.plugins::ModulatedDeformConv2d", x, offset, mask, weight, bias, **SETTINGS, strides=[1, 1])

    made = model("y = custom.deform(x, w, o, m, b)", HEAD, 19, ', "custom" : 1')
    with pytest.raises(RuleError, match="no attribute 'strides'"):
        surgeon.rewrite(made, wrong, target="tensorrt", check="none")


def test_rules_without_a_plugin_write_onnx_for_tensorrt_where_it_reads_it():
    made = model("y = com.microsoft.Gelu(x)", opset=20, more=', "com.microsoft" : 1')
    after, _ = surgeon.rewrite(made, "gelu", target="tensorrt", check="none")
    assert [(node.domain, node.op_type) for node in after.graph.node] == [("", "Gelu")]


def test_the_manual_reports_the_target_apart_where_it_differs(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from surgeon import rule\n\n"
        "def placeholder(g, x):\n    return g.op('custom::thing', x)\n\n"
        "@rule(patterns=[placeholder], target='onnx')\ndef thing(g, x):\n    'Do it.'\n    return g.relu(x)\n\n"
        "@thing.on('tensorrt')\ndef _(g, x):\n    return g.op('trt.plugins::Thing', x)\n"
    )
    assert "tensorrt   trt.plugins::Thing(x)" in run("rules", path).stdout
    assert "tensorrt" not in run("rules", "gelu:gelu").stdout


@pytest.mark.parametrize(
    ("body", "opset", "words"),
    [
        ("a, i = TopK<sorted = 0>(x, k) y = Relu(a)", 17, "sorted=1"),
        ("a, i = TopK(x, large) y = Relu(a)", 17, "K below 3840, but it is 4000"),
        ("a, i = TopK(x, k) y = Relu(a)", 17, ""),
        ("y, i = MaxPool<kernel_shape = [1, 1]>(image)", 17, "second output"),
        ("y = MaxPool<kernel_shape = [2, 2], dilations = [2, 1]>(image)", 17, "does not support dilations"),
        ("y = MaxPool<kernel_shape = [2, 2], dilations = [1, 1]>(image)", 17, ""),
        ("y, m = LayerNormalization(x, four)", 17, "only the first output"),
        ("y = LayerNormalization(x, four)", 17, ""),
        ("y = GridSample(volume, points)", 20, "inputs of four axes"),
        ("y = DeformConv<pads = [1, 1, 0, 0]>(image, kernel, off)", 19, "equal pads at both ends"),
        ("y = DeformConv<pads = [1, 1, 1, 1]>(image, kernel, off)", 19, ""),
        ("y = Resize<mode = \"cubic\">(image, , scales)", 17, "only in the modes nearest and linear"),
        ("y = Resize<mode = \"linear\">(image, , scales)", 17, ""),
        ("y = ScatterND<reduction = \"add\">(x, indices, rows)", 17, "without a reduction"),
        ("y = ReduceSum(x, axes)", 17, "axes to be a constant"),
        ("y = ReduceSum(x, k)", 17, ""),
        ("y = CumSum(x, axis)", 17, "axis to be a constant"),
        ("a = QuantizeLinear(x, one, zero) y = DequantizeLinear(a, one, three)", 17, "zero points of 0"),
        ("y = Attention(image, image, image)", 23, "only in float16 and bfloat16, but here it is float"),
        ("a = Cast<to = 10>(image) y = Attention(a, a, a)", 23, "head sizes of 9 to 256, but here it is 4"),
        ("a = Cast<to = 10>(heads) y = Attention<softcap = 5.0>(a, a, a)", 23, "does not support softcap"),
        ("a = Cast<to = 10>(heads) y = Attention(a, a, a)", 23, ""),
        ("a = Cast<to = 10>(heads) y = Attention<is_causal = 1>(a, a, a, x)", 23, "a mask or is_causal"),
        ("y = RotaryEmbedding(heads, half, half)", 23, "the batch size of the input"),
        ("a = Cast<to = 2>(x) b = Relu(x) c = Cast<to = 1>(a) y = Add(b, c)", 17, "uint8 only for inputs and outputs"),
        ("a = Cast<to = 5>(x) y = Cast<to = 1>(a)", 17, "does not support int16 tensors"),
        ("y = Det(x)", 17, "TensorRT 11.1 does not support it"),
        ("a = Cast<to = 16>(x) b = Mish(a) y = Cast<to = 1>(b)", 22, "but its data is bfloat16"),
    ],
)  # fmt: skip
def test_limits_of_the_ops_that_tensorrt_reads(body, opset, words):
    constants = (
        "int64[1] k = {2}, int64[1] large = {4000}, float[4] four = {1, 1, 1, 1}, float[4] scales = {1, 1, 2, 2}, "
        "float one = {1}, int8 zero = {0}, int8 three = {3}, int64[1, 1] indices = {0}, float[1, 4] rows = {1, 1, 1, 1}"
    )
    head = (
        "(float[4, 4] x, float[1, 2, 4, 4] image, float[1, 2, 3, 4, 4] volume, float[1, 3, 4, 4, 3] points, "
        "float[1, 2, 2, 2] kernel, float[1, 8, n, m] off, float[2, 4, 4, 16] heads, float[1, 4, 8] half, "
        "int64[1] axes, int64 axis) "
        f"=> (float y) <{constants}>"
    )
    found = surgeon.check(model(body, head, opset), "tensorrt", load=False)
    reported = [one.reason for one in found if one.kind in ("restriction", "kernel")]
    assert any(words in reason for reason in reported) if words else not reported


def test_branches_of_two_ranks_are_reported_as_that():
    """Not as two outputs of one name, whose new names would mend nothing."""
    body = (
        "y = If(c) <then_branch = t () => (float[1, 4] p) { p = Unsqueeze(x, first) }, "
        "else_branch = e () => (float[4] p) { p = Neg(x) }>"
    )
    made = model(body, "(bool c, float[4] x) => (float y) <int64[1] first = {0}>")
    reasons = [one.reason for one in surgeon.check(made, "tensorrt", load=False) if one.kind == "restriction"]
    assert reasons == ["TensorRT needs branches of the same rank, but they have 2 and 1 axes"]


def test_tensorrt_goes_by_the_name_of_an_op():
    """Two ops of com.microsoft are read as others; a function with the name of an op is never looked at."""
    more = ', "com.microsoft" : 1, "mine" : 1'
    function = '<domain: "mine", opset_import: ["" : 17]> Selu (a) => (b) { b = Relu(a) }'
    body = "a = com.microsoft.Attention<num_heads = 1>(x, x, x) b = com.microsoft.Gelu(a) y = mine.Selu(b)"
    found = surgeon.check(model(body, more=more, functions=function), "tensorrt")
    assert {one.op for one in found if one.kind == "restriction"} == {"com.microsoft::Attention", "mine::Selu"}


def test_ops_of_onnx_runtime_are_lowered_first_where_a_rule_can():
    """The command that rewrites the whole model comes before single rules; without a rule it is left out."""
    more = ', "com.microsoft" : 1'
    square, lowered = "(float[4, 4] x) => (float[4, 4] y)", "rewrite this model for TensorRT: surgeon rewrite IN OUT"
    body = "a = com.microsoft.FusedMatMul<alpha = 2.0>(x, x) y = com.microsoft.QuickGelu(a)"
    found = surgeon.check(model(body, square, more=more), target="tensorrt")
    assert [one.helps[0] for one in found] == [f"{lowered} --target tensorrt"] * 2
    (inverse,) = surgeon.check(model("y = com.microsoft.Inverse(x)", square, more=more), target="tensorrt")
    assert not any(text.startswith(lowered) for text in inverse.helps)


def test_ops_that_the_tables_lack_are_not_called_unsupported():
    """The parser may read them all the same."""
    found = surgeon.rewrite(
        model("a = Neg(x) b = com.microsoft.QuickGelu(a) y = com.microsoft.QuickGelu(b)", more=', "com.microsoft" : 1'),
        "cleanup",
        target="tensorrt",
    )[1]
    assert found.next_steps[0].startswith("com.microsoft::QuickGelu stays at ")
    assert "but the tables in the TensorRT" in found.next_steps[0]
    assert "does not have" not in found.next_steps[0]


def test_a_call_must_give_every_input_of_a_function():
    function = '<domain: "mine", opset_import: ["" : 17]> Thing (a, b) => (c) { c = Relu(a) }'
    more = ', "mine" : 1'
    (found,) = surgeon.check(model("y = mine.Thing(x)", more=more, functions=function), "tensorrt")
    assert "has 2 inputs, but the call gives 1" in found.reason
    assert not surgeon.check(model("y = mine.Thing(x, x)", more=more, functions=function), "tensorrt")


def test_plugins_of_a_model():
    """A deprecated plugin is told and stops nothing; a wrong node stops, in whatever domain it stands."""
    good = f"a, b, c, e = trt.plugins.EfficientNMS_TRT<{NMS}>(x, x) y = Relu(x)"
    (found,) = surgeon.check(model(good, more=', "trt.plugins" : 1'), "tensorrt")
    assert (found.kind, found.stops) == ("advice", False)
    bad = "a, b, c, e = mine.EfficientNMS_TRT(x, x) y = Relu(x)"
    found = surgeon.check(model(bad, more=', "mine" : 1'), "tensorrt")
    assert [one.kind for one in found if one.stops] == ["plugin"]
    assert plugin_of(model(bad, more=', "mine" : 1').graph.node[0]) is not None


def test_ends_that_are_no_tensors_are_named():
    """One with its name and type, several with their names; what has no type at all is noted once, as that."""
    body = "{ s = SequenceConstruct(x) t = SequenceConstruct(x, x) y = Relu(x) }"
    several = parse(f"(float[2] x) => (seq(float[2]) s, seq(float[2]) t, float[2] y) {body}")
    found = [one for one in surgeon.check(several, "tensorrt", load=False) if "only tensors" in one.reason]
    assert [one.reason for one in found] == ["outputs are of type sequence, but TensorRT supports only tensors"]
    assert found[0].nodes == ["'s'", "'t'"]
    del several.graph.output[1]
    found = [one for one in surgeon.check(several, "tensorrt", load=False) if "only tensors" in one.reason]
    assert [one.reason for one in found] == ["the output 's' is of type sequence, but TensorRT supports only tensors"]
    several.graph.output[0].ClearField("type")
    said = [one.reason for one in surgeon.check(several, "tensorrt", load=False)]
    assert not [text for text in said if "tensors only" in text or "…" in text]
    assert any("'s'" in text for text in said)
