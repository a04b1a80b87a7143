"""TensorRT's own parser and builder: asked in a child, its word at the nodes, and the tables held against it."""

import json
import shutil
import subprocess
from collections import Counter

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import ModelFileError, UsageError
from surgeon.file.model import Model
from surgeon.runtime.processes.worker import Task, Worker
from surgeon.runtime.tensorrt import library, parser_tasks
from surgeon.runtime.tensorrt.compatibility import CompatibilityCheck, profiles_of
from surgeon.runtime.tensorrt.error_messages import readable_reason
from surgeon.runtime.tensorrt.library import installed
from surgeon.targets.tensorrt.support_matrix import rtx_version
from surgeon.testing import parse
from tests import exports, make_tensorrt_tables
from tests.command_line import run
from tests.matrix import sample as matrix
from tests.onnx_cases import onnx_cases
from tests.sampling import chosen
from tests.test_engines import has_gpu

LIBRARY = installed()
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")
HEADER = '<ir_version: 9, opset_import: ["" : {opset}{more}]> g '

# What the documentation of TensorRT refuses and the parser of TensorRT-RTX passes, and why it stays refused.
DOCUMENTED = {
    "Attention": "of float32, of small heads and of caches by length: parsed, and refused by the builder",
    "AveragePool": "over one axis: documented for two and three",
    "BlackmanWindow": "of a size that is an input: parsed, and to build it the size must be known",
    "CumSum": "along an axis that is an input: parsed, and to build it the axis must be known; of integers: documented "
    "for floats",
    "Equal": "of uint8: documented for other dtypes",
    "GridSample": "of volumes: documented for pictures",
    "HammingWindow": "of a size that is an input: parsed, and to build it the size must be known",
    "HannWindow": "of a size that is an input: parsed, and to build it the size must be known",
    "LSTM": "in batches first: documented for sequences first",
    "MaxPool": "over one axis: documented for two and three",
    "Range": "in floats between inputs: parsed, and to build it they must be known",
    "Resize": "in the mode cubic: documented for nearest and linear",
    "Slice": "along axes that are an input: parsed, and to build it they must be known",
}
# What the tables have nothing against and the parser refuses, and why they have not.
UNTOLD = {
    "test_affine_grid_3d_expanded": "sizes that are computed leave a negative one behind a Split",
    "test_affine_grid_3d_align_corners_expanded": "sizes that are computed leave a negative one behind a Split",
    "test_bernoulli_expanded": "random numbers like those of an integer tensor",
    "test_celu_bfloat16": "the rank is not told, as the case names no shape",
    "test_celu_float16": "the rank is not told, as the case names no shape",
    "test_matmul_1d_3d": "a vector times matrices of one row",
    "test_range_bfloat16_type_positive_delta_expanded": "a size computed from an input of floats",
    "test_range_float16_type_positive_delta_expanded": "a size computed from an input of floats",
    "test_range_float_type_positive_delta_expanded": "a size computed from an input of floats",
}


def model(body, head="(float[2, 4] x) => (float[2, 4] y)", opset=17, more="", functions=""):
    """A model from ONNX text."""
    return parse(f"{HEADER.format(opset=opset, more=more)}{head} {{ {body} }} {functions}")


def reasons(found):
    """What stops a model, with the op at which it is told."""
    return [(one.op, one.reason) for one in found if one.stops]


def cases():
    """ONNX's own cases of single ops and of functions' bodies: one in nine, or all."""
    return chosen(lambda: onnx_cases()[::9], onnx_cases)


def test_the_tables_agree_with_the_parser():
    untold, undocumented = [], Counter()
    for case in cases():
        with Model.open(case.model) as opened:
            refused = bool(CompatibilityCheck(LIBRARY, 60.0).run(opened).faults)
        findings = [one for one in surgeon.check(case.model, "tensorrt", load=False) if one.stops]
        plugin = any("TensorRT-RTX" in one.reason for one in surgeon.check(case.model, "tensorrt", load=False))
        if refused and not findings and not plugin and case.name not in UNTOLD:
            untold.append(case.name)
        if findings and not refused and all(one.kind != "advice" for one in findings):
            undocumented[next(one.op for one in findings).removeprefix("ai.onnx::")] += 1
    assert not untold
    assert set(undocumented) <= set(DOCUMENTED)


def disagreeing(path):
    """The first op that the tables refuse and the parser takes; fails where it is the other way round."""
    refused = [one for one in surgeon.check(path, "tensorrt") if one.stops]
    findings = [one for one in surgeon.check(path, "tensorrt", load=False) if one.stops]
    assert findings or not refused, path
    return {one.op.removeprefix("ai.onnx::") for one in findings[:1] if not refused}


def test_the_tables_agree_with_the_parser_on_exports():
    """Of activations and whole architectures, by both exporters."""
    cases = chosen(lambda: exports.sample()[::6], exports.sample)
    assert set().union(*(disagreeing(exports.export(case)[0]) for case in cases)) <= set(DOCUMENTED)


def test_the_tables_agree_with_the_parser_on_forms_of_the_matrix():
    """Of activations, norms and products in every column, where nothing is left out."""
    parts = chosen(lambda: matrix.chosen()[:2], matrix.every)
    paths = [form.path for part in parts for form in part.exports() if form.path is not None]
    assert paths
    for path in paths:
        assert not disagreeing(path)


def test_the_table_of_tensorrt_rtx_is_that_of_the_parser():
    """`python -m tests.make_tensorrt_tables` writes it anew."""
    if LIBRARY.version != rtx_version():
        pytest.skip(f"the table is of TensorRT-RTX {rtx_version()}, and {LIBRARY.version} is installed")
    assert json.loads(make_tensorrt_tables.TABLE.read_text())["tensorrt_rtx"] == make_tensorrt_tables.asked()


def test_every_refusal_is_reported_at_its_node():
    """Also those behind a node at which the parser stops, and inside of a function."""
    found = surgeon.check(
        model(
            "s = Shape(x) o = Constant<value_ints=[0]>() a = Gather(s, o) b = Sub(a, a) r = ReduceSum(x, b)"
            " d = foo.Bar(x) z = LpPool<kernel_shape = [1, 1], p = 3>(x) y = Add(x, z)",
            "(float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)",
            more=', "foo" : 1',
            functions='<domain: "foo", opset_import: ["" : 17]> Bar (u) => (v) { v = Det(u) }',
        ),
        "tensorrt",
    )
    assert {op for op, _ in reasons(found)} == {"ai.onnx::ReduceSum", "ai.onnx::Det", "ai.onnx::LpPool"}
    assert found.runtime.is_whole


@pytest.mark.skipif(has_gpu(), reason="there is a GPU here")
def test_a_plugin_of_its_own_that_wants_a_gpu_is_no_fault_of_the_model():
    """Without a GPU it does not make the plugin of RoiAlign: that is told, and what stands behind it is looked at."""
    head = "(float[2, 3, 8, 8] x, float[k, 4] b, int64[k] i) => (float[k, 3] y)"
    roi = "r = RoiAlign<output_height = 3, output_width = 3>(x, b, i)"
    found = surgeon.check(model(f"{roi} d = Det(r) y = Relu(d)", head), "tensorrt")
    stops = {one.op: one.reason for one in found if one.stops}
    assert list(stops) == ["ai.onnx::Det"]
    assert found.runtime.is_whole
    (finding,) = surgeon.check(model(f"{roi} y = ReduceMean<axes = [2, 3], keepdims = 0>(r)", head), "tensorrt")
    assert (finding.op, finding.nodes, finding.stops) == ("ai.onnx::RoiAlign", ["r"], False)
    assert "only on a machine with a GPU" in finding.reason


def test_what_stands_behind_a_branch_is_reported_too():
    """A refusal inside of a body: the node that holds it is taken out, and the rest looked at."""
    inner = "(float[2, 4] {0}) {{ {0} = LpPool<kernel_shape = [1], p = 3>(x) }}"
    branches = ", ".join(
        f"{name}_branch = {name} () => {inner.format(letter)}" for name, letter in (("then", "a"), ("else", "b"))
    )
    found = surgeon.check(
        model(f"z = If(c) <{branches}> s = Shape(z) o = Constant<value_ints=[0]>() n = Gather(s, o) b = Sub(n, n)"
              " y = ReduceSum(z, b)", "(bool c, float[2, 4] x) => (float[1, 4] y)"),
        "tensorrt",
    )  # fmt: skip
    assert {op for op, _ in reasons(found)} == {"ai.onnx::ReduceSum", "ai.onnx::LpPool"}
    assert found.runtime.is_whole


def test_names_of_the_model_do_not_reach_the_screen_raw(tmp_path):
    """TensorRT's messages hold them."""
    made = model("y = Mod(x, x)")
    for node in made.graph.node:
        node.input[:] = ["x\x1b[31m", "x\x1b[31m"]
    made.graph.input[0].name = "x\x1b[31m"
    onnx.save(made, tmp_path / "m.onnx")
    assert "\x1b" not in run("check", str(tmp_path / "m.onnx"), "--target", "tensorrt").output


def test_what_the_parser_takes_stands_whatever_the_tables_say():
    volume = model("y = GridSample(x, p)", "(float[1,2,3,4,4] x, float[1,3,4,4,3] p) => (float[1,2,3,4,4] y)", 20)
    assert surgeon.check(volume, "tensorrt", load=False)
    assert not surgeon.check(volume, "tensorrt")


def test_what_it_reads_as_another_op_is_reported_though_it_takes_it():
    found = surgeon.check(
        model(
            "y = foo.Gelu(x)",
            more=', "foo" : 1',
            functions='<domain: "foo", opset_import: ["" : 17]> Gelu (u) => (v) { v = Relu(u) }',
            opset=20,
        ),
        "tensorrt",
    )
    assert [op for op, reason in reasons(found) if "ignores the domain" in reason] == ["foo::Gelu"]


def test_inputs_of_a_dtype_that_it_has_not_are_named():
    found = surgeon.check(model("y = Cast<to = 1>(x)", "(uint32[2] x) => (float[2] y)"), "tensorrt")
    assert reasons(found) == [("", "the input 'x' is uint32, which TensorRT does not support")]


def test_what_is_left_out_is_not_reported_for_the_model():
    """Behind a Cast to a dtype that it has not, nothing is fed in its place: no input of the model is of that dtype."""
    found = surgeon.check(model("a = Cast<to = 12>(x)  y = Cast<to = 1>(a)"), "tensorrt")
    assert reasons(found) == [("ai.onnx::Cast", "TensorRT does not support uint32 tensors")]
    assert not found.runtime.is_whole


def test_what_no_choice_of_sizes_mends_is_not_reported_to_be_a_matter_of_sizes():
    """There is none to choose, and the builder's own words say nothing."""
    head = "(float[1, 10, 4] x, float[1, 2, 10] s) => (int64[k, 3] y) <int64 m = {5}>"
    (finding,) = surgeon.check(model("y = NonMaxSuppression(x, s, m)", head), "tensorrt", build=True)
    assert (finding.kind, finding.reason, finding.helps) == ("build", "TensorRT has no kernel for it on this GPU", [])


def test_that_no_engine_was_built_is_said():
    """A plugin that TensorRT-RTX does not bring stands in the way, which is no fault of the model."""
    left = '{ y = trt.plugins.Mine(x) }'
    known = {"inputs": {"x": "float32"}, "outputs": {"y": "x"}}
    surgeon.declare_plugin("Mine", **known)
    made = parse(f'<ir_version: 9, opset_import: ["": 17, "trt.plugins": 1]> g (float[2] x) => (float[2] y) {left}')
    (finding,) = surgeon.check(made, "tensorrt", build=True)
    assert finding.reason.endswith("does not have trt.plugins::Mine")
    assert finding.helps[0].startswith("load the library of the plugin's creators (--custom-ops LIB)")
    assert not surgeon.check(made, "tensorrt")


def test_a_build_needs_no_gpu_and_reports_its_sizes(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model("y = Relu(x)", "(float[batch, 4] x) => (float[batch, 4] y)"), path)
    done = run("check", str(path), "--target", "tensorrt", "--build", "--sm", "80", "--dim", "batch=1:4:8")
    assert done.exit_code == 0
    assert f"note     TensorRT-RTX {LIBRARY.version} parsed the model into 1 layer\n" in done.output
    assert "an engine for SM80 with batch=1:4:8: " in done.output


def test_sizes_that_the_graph_can_take_are_found():
    """A length that must be a multiple of 32: what the usual sizes are refused for is told, and stops nothing."""
    body = "f = Flatten<axis = 1>(x) y = Reshape(f, parts)"
    made = model(body, "(float[1, items] x) => (float[rows, 32] y) <int64[2] parts = {-1, 32}>")
    found = surgeon.check(made, "tensorrt", build=True)
    assert not [one for one in found if one.stops]
    assert found.runtime.sizes["items"][1] % 32 == 0
    assert [one.kind for one in found] == ["build"]
    fixed = surgeon.check(made, "tensorrt", build=True, dims={"items": 33})
    assert [one.kind for one in fixed if one.stops] == ["build"]
    assert "valid sizes" in " ".join(fixed[0].helps)


def test_what_parses_and_does_not_build_is_reported():
    """The axis is an input: the builder would have to know it."""
    found = surgeon.check(
        model("y = CumSum(x, k)", "(float[2, 4] x, int64 k) => (float[2, 4] y)"), "tensorrt", build=True
    )
    assert [one.kind for one in found if one.stops] == ["build"]
    assert "input 'k' determines sizes or axes" in found[0].reason


@pytest.mark.parametrize(
    ("dtype", "width", "builds"),
    [
        ("float", 64, False),
        ("float16", 8, False),
        ("float16", 9, True),
        ("bfloat16", 256, True),
        ("float16", 264, False),
    ],
)
def test_attention_is_refused_where_the_builder_has_no_kernel_for_it(dtype, width, builds):
    """The parser takes all of these; what the tables refuse is written in parts, and that is built."""
    shape = f"{dtype}[b, 4, s, {width}]"
    attention = model("y = Attention(q, k, v)", f"({shape} q, {shape} k, {shape} v) => ({shape} y)", 23)
    with Model.open(attention) as opened:
        assert bool(CompatibilityCheck(LIBRARY, 120.0, "86").run(opened).engine_bytes) is builds
    for load in (False, True):
        assert any(one.stops for one in surgeon.check(attention, "tensorrt", load=load)) is not builds
    made, _ = surgeon.rewrite(attention, "tensorrt", target="tensorrt", check="none")
    assert not surgeon.check(made, "tensorrt", build=True)


@pytest.mark.parametrize("op", ["GRU", "LSTM", "RNN"])
@pytest.mark.parametrize("lengths", ["", ", lengths"])
def test_the_parser_takes_recurrent_nodes_of_half_precision_without_lengths_alone(op, lengths):
    """And what it does not take, the limits tell without it."""
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[op] * 4
    head = "(float16[5, 2, 3] x, int32[2] lengths) => (float16[5, 1, 2, 4] y)"
    body = f"{{ y = {op}<hidden_size = 4>(x, w, r, {', lengths' if lengths else ''}) }}".replace("r, )", "r)")
    made = parse(f"{HEADER.format(opset=17, more='')}{head} {body}")
    for name, width in (("w", 3), ("r", 4)):
        weight = np.full((1, gates, width), 0.1, np.float16)
        made.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    for load in (True, False):
        assert bool([item for item in surgeon.check(made, "tensorrt", load=load) if item.stops]) == bool(lengths)


def test_a_profile_takes_what_is_given_and_what_follows_from_it():
    made = model("y = Relu(x) w = Relu(z)", "(float[batch, past] x, float[batch, total] z) => (float[batch, past] y)")
    made.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "past + 2"
    with Model.open(made) as opened:
        profile, known = next(profiles_of(opened, {"batch": (1, 4, 8)}))
    least, best, largest = profile["z"]
    assert [shape[0] for shape in (least, best, largest)] == [1, 4, 8]
    assert known["batch"] == (1, 4, 8)
    assert best[1] == profile["x"][1][1] + 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trt": "tensorrt-12"}, "Unknown TensorRT library 'tensorrt-12'. Choose tensorrt-rtx or tensorrt."),
        ({"build": True, "sm": "90"}, "does not support compute capability '90'. Choose one of 75, 80"),
        ({"build": True, "dims": {"batch": (8, 4, 1)}}, "The sizes of 'batch' are not in order"),
        ({"build": True, "dims": {"nobody": 3}}, "No input has a dynamic dimension 'nobody'"),
        ({"dims": {"batch": 3}}, "need build, because"),
        ({"build": True, "load": False}, "A build needs load=True"),
        ({"target": "ort", "build": True}, "Target ort does not support trt, build and dims"),
        ({"build": True, "dims": {"batch": "3"}}, "Invalid size '3' of 'batch'. Give one integer"),
        ({"build": True, "dims": {"batch": (1, 4)}}, "Invalid size (1, 4) of 'batch'. Give one integer"),
        ({"run_time": -1}, "Invalid run time of -1 s"),
        ({"target": "ort", "run_time": 0}, "Invalid run time of 0 s"),
    ],
)
def test_bad_settings_are_one_sentence(settings, words):
    wanted = {"target": "tensorrt", **settings}
    with pytest.raises(UsageError, match=r"\.$") as caught:
        surgeon.check(model("y = Relu(x)", "(float[batch, 4] x) => (float[batch, 4] y)"), **wanted)
    assert words in str(caught.value)


def test_a_capability_may_be_a_number():
    """86 is SM86."""
    assert surgeon.check(model("y = Relu(x)"), "tensorrt", build=True, sm=86).runtime.device == "SM86"


def test_a_library_that_is_not_installed_is_said_only_where_it_was_asked_for(monkeypatch):
    monkeypatch.setattr(library.Library, "module", None)
    with pytest.raises(UsageError, match="pip install tensorrt-rtx"):
        installed("tensorrt-rtx")
    found = surgeon.check(model("y = Det(x)"), "tensorrt")
    assert found.runtime.silence == (
        "checked against the tables in the TensorRT 11.1 documentation; to use TensorRT's own parser: "
        "pip install tensorrt-rtx"
    )
    assert reasons(found)


def test_a_parser_that_ends_its_process_ends_the_child_alone(monkeypatch):
    """The node that it was at is told."""
    from surgeon.runtime.tensorrt import compatibility

    monkeypatch.setattr(compatibility, "MODULE", "tests.child_tasks")
    with Model.open(model("a = Relu(x) y = Relu(a)")) as opened:
        said = CompatibilityCheck(LIBRARY, 60.0).run(opened)
    assert [(one.node, one.reason) for one in said.faults] == [(1, "TensorRT's parser ended its process (SIGSEGV)")]


def test_no_word_of_the_parser_is_none_against_the_model(monkeypatch, tmp_path):
    """Where it ends, or takes too long, one sentence says so, and the exit code is not that of what cannot run."""
    from surgeon.runtime.tensorrt import compatibility

    onnx.save(model("a = Relu(x) y = Relu(a)"), tmp_path / "net.onnx")
    given = ["check", str(tmp_path / "net.onnx"), "--target", "tensorrt"]
    monkeypatch.setattr(compatibility, "MODULE", "tests.endless_tasks")
    done = run(*given, "--run-time", "0.2")
    assert done.exit_code == 2, done.output
    assert "takes more than 0.2 s. Give it more time: --run-time 1" in done.output
    monkeypatch.setattr(compatibility, "MODULE", "tests.child_tasks")
    done = run(*given)
    assert done.exit_code == 2, done.output
    assert "TensorRT's parser ended its process (SIGSEGV)" in done.output
    assert done.output.splitlines()[-1] == (
        "UNKNOWN  TensorRT did not say whether it can run this model; details: -v"
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("int unused(void) { return 1; }", "it exports no plugin creators"),
        ("void abort(void);\n__attribute__((constructor)) void end(void) { abort(); }", r"loading it ends .*SIGABRT"),
        ("", "it cannot be loaded"),
    ],
)
def test_a_library_without_plugins_is_one_sentence(source, words, tmp_path):
    """It would else be as if it had not been given."""
    library = tmp_path / "mine.so"
    if source and shutil.which("gcc") is None:
        pytest.skip("there is no compiler")
    if source:
        (tmp_path / "mine.c").write_text(source)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "mine.c"], check=True)
    else:
        library.write_text("no library")
    with pytest.raises(UsageError, match=f"mine.so is not a plugin library for TensorRT-RTX: .*{words}"):
        surgeon.check(model("y = Relu(x)"), "tensorrt", custom_ops=[library])


def test_weights_are_read_where_they_lie(tmp_path):
    """In the file, in an external file, and inside of a Constant."""
    body = "c = Constant<value = float[1] {1}>() w2 = Mul(w, c) y = MatMul(x, w2)"
    made = model(body, "(float[2, 64] x) => (float[2, 64] y)")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    made.graph.node[0].attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.ones((1, 64, 64), np.float32)[0]))
    onnx.save(made, tmp_path / "in.onnx")
    onnx.save(made, tmp_path / "out.onnx", save_as_external_data=True, size_threshold=0, convert_attribute=True)
    for name in ("in.onnx", "out.onnx"):
        assert not surgeon.check(tmp_path / name, "tensorrt", build=True)
    for data in [path for path in tmp_path.iterdir() if path.suffix != ".onnx"]:
        data.unlink()
    with pytest.raises(ModelFileError, match="Put it into the folder of the model"):
        surgeon.check(tmp_path / "out.onnx", "tensorrt")


def test_weights_that_are_not_what_the_file_says_are_a_finding():
    """The parser is not asked then: what it would be given is not the model's."""
    made = model("y = MatMul(x, w)")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "w"))
    made.graph.initializer[0].dims[0] = 9
    found = surgeon.check(made, "tensorrt")
    assert [reason for _, reason in reasons(found)] == [
        "the tensor 'w' has the shape [9, 4], but its data has 16: the file is damaged"
    ]
    assert found.runtime.silence.endswith("its parser did not run")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("false", "TensorRT's parser does not support this op"),
        ('(p == 1 || p == 2) && "Only L1 and L2 are supported."', "Only L1 and L2 are supported"),
        ("Assertion failed: x.y(z): ScatterND with reduction is not taken.", "ScatterND with reduction is not taken"),
        (
            "Invalid Node - surgeon-node-7\nITensor::getDimensions: Error Code 4: API Usage Error (surgeon-node-7: "
            "Key and Value must have the same shape In validate at /_src/a.cpp:9)\n[x::catchCudaError::2] Error Code 1:"
            " Cuda Runtime (In f at /_src/b.cpp:250 (cudaError 35: CUDA driver version is insufficient))",
            "Key and Value must have the same shape",
        ),
        ("x" * 900, "x" * 300 + "…"),
    ],
)  # fmt: skip
def test_its_messages_become_clauses(message, words):
    assert readable_reason(message) == words


def test_nodes_of_one_name_are_distinguished():
    """Each goes under a number of its own, in functions and bodies too."""
    made = model("a = Relu(x) y = Det(a)")
    for node in made.graph.node:
        node.name = "same"
    source = parser_tasks.ParseRequest(LIBRARY.module, made.SerializeToString())
    child = Worker()
    try:
        result = child.run(Task("surgeon.runtime.tensorrt.parser_tasks:parse", source, 60.0)).value
    finally:
        child.end()
    assert [one["node"] for one in result["faults"]] == [1]
