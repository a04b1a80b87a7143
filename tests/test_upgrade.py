"""`surgeon upgrade`: what it raises, what it edits, what it refuses, and that the result is the same model."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from surgeon import upgrade
from surgeon.errors import CheckFailed, GraphError, UsageError
from tests.command_line import gelus, ops, run, save
from tests.versions import ERF_TAKES_NO_INTEGERS


def raised(path: Path, opset: int, **settings: object) -> tuple[onnx.ModelProto, object]:
    """The upgraded model, proved to be the same, and what was done."""
    out = path.with_name("raised.onnx")
    done = upgrade(path, opset, out, **settings)
    assert done.outcome == "proved", done.check
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    return model, done


def test_only_the_number_changes_where_types_only_widened(tmp_path: Path) -> None:
    """Every byte but opset and IR version stays."""
    path = gelus(tmp_path)
    model, done = raised(path, 20)
    assert done.opset == (17, 20)
    assert done.ir_version == (8, 9)
    before = onnx.load(path)
    before.opset_import[0].version, before.ir_version = 20, 9
    assert model == before
    assert len((tmp_path / "raised.onnx").read_bytes()) == len(path.read_bytes())


def test_the_ir_version_is_never_lowered(tmp_path: Path) -> None:
    """IR 10 stays IR 10 at opset 18, which asks for 8."""
    model, _ = raised(gelus(tmp_path, ir_version=10), 18)
    assert model.ir_version == 10


def test_the_same_opset_is_the_same_bytes(tmp_path: Path) -> None:
    """Nothing to do: nothing done."""
    path, out = gelus(tmp_path), tmp_path / "out.onnx"
    assert upgrade(path, 17, out).outcome == "unchanged"
    assert out.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "body", "edited"),
    [
        (17, 18, "y = ReduceMean <axes = [1], keepdims = 1> (x)", "ReduceMean: attribute axes became an input"),
        (11, 20, "y = ReduceSum <axes = [-1]> (x)", "ReduceSum: attribute axes became an input"),
        (
            12,
            13,
            "a = Unsqueeze <axes = [0]> (x) y = Squeeze <axes = [0]> (a)",
            "Squeeze: attribute axes became an input",
        ),
        (
            12,
            13,
            "a, b = Split <axis = 1, split = [1, 3]> (x) y = Concat <axis = 1> (a, b)",
            "Split: attribute split became an input",
        ),
        (
            17,
            18,
            "a, b = Split <axis = 1> (x) y = Concat <axis = 1> (b, a)",
            "Split: attribute num_outputs=2 was added",
        ),
        (
            11,
            20,
            "a, b = Split <axis = 1, split = [1, 3]> (x) y = Concat <axis = 1> (b, a)",
            "Split: attribute split became an input",
        ),
        (10, 12, "a = Dropout <ratio = 0.25> (x) y = Relu(a)", "Dropout: attribute ratio became an input"),
        (10, 11, "y = Clip <max = 0.5> (x)", "Clip: attribute max became an input"),
        (9, 13, "y = Clip <min = -0.25> (x)", "Clip: attribute min became an input"),
        (7, 20, "y = Clip <max = 0.5, min = 0.0> (x)", "Clip: attributes min and max became inputs"),
        (
            10,
            11,
            "a = Pad <pads = [0, 1, 0, 2], value = 0.5> (x) y = Slice(a, front, back)",
            "Pad: attributes pads and value became inputs",
        ),
        (
            10,
            18,
            "a = Pad <mode = \"reflect\", pads = [0, 1, 0, 2]> (x) y = Slice(a, front, back)",
            "Pad: attribute pads became an input",
        ),
        (
            9,
            10,
            "a = Slice <axes = [1], starts = [-1], ends = [9]> (x) y = Concat <axis = 1> (a, x, a, a)",
            "Slice: attributes starts and ends and axes became inputs",
        ),
        (
            7,
            13,
            "a = Slice <starts = [0, 1], ends = [9, 2]> (x) y = Concat <axis = 1> (a, a, a, a)",
            "Slice: attributes starts and ends became inputs",
        ),
        (
            9,
            11,
            "v, i = TopK <k = 2, axis = 1> (x) y = Concat <axis = 1> (v, v)",
            "TopK: attribute k became an input",
        ),
    ],
)
def test_attributes_that_became_inputs_move(tmp_path: Path, old: int, new: int, body: str, edited: str) -> None:
    """The node is edited, and computes what it did."""
    constants = "int64[2] front = {0, 1}, int64[2] back = {9, 5}" if "front" in body else ""
    _, done = raised(save(tmp_path, body, opset=old, constants=constants), new)
    assert edited in done.edited


def test_a_split_whose_sizes_are_left_out_by_an_empty_name(tmp_path: Path) -> None:
    path = save(tmp_path, "a, b = Split <axis = 1> (x) y = Concat <axis = 1> (b, a)", opset=13)
    model = onnx.load(path)
    model.graph.node[0].input.append("")
    onnx.save(model, path)
    _, done = raised(path, 18)
    assert done.edited == {"Split: attribute num_outputs=2 was added": 1}


def test_equal_axes_share_one_initializer_with_a_fresh_name(tmp_path: Path) -> None:
    """Two nodes with axes -1, one with axes 0, and a tensor that already has the name."""
    body = """
        r = Relu(x)
        a = ReduceMax <axes = [-1]> (r) b = ReduceMin <axes = [-1]> (x) c = ReduceMax <axes = [0]> (x)
        d = Add(a, b) y = Add(c, d)
    """
    path = save(tmp_path, body)
    before = onnx.load(path)
    before.graph.node[0].output[0] = before.graph.node[1].input[0] = "axes_-1"
    path.write_bytes(before.SerializeToString())
    model, _ = raised(path, 18)
    fresh = [tensor.name for tensor in model.graph.initializer if tensor.name.startswith("axes")]
    assert fresh == ["axes_-1_1", "axes_0"]
    assert [node.input[1] for node in model.graph.node if node.op_type.startswith("Reduce")] == [
        "axes_-1_1",
        "axes_-1_1",
        "axes_0",
    ]


def test_nodes_in_bodies_are_edited_too(tmp_path: Path) -> None:
    """The constant stands in the main graph; the branch captures it."""
    body = """
        s = ReduceMax <axes = [0, 1], keepdims = 0> (x)
        c = Greater(s, one)
        y = If (c) <
            then_branch = t () => (float[n, 4] a) { m = ReduceMean <axes = [1]> (x) a = Add(x, m) },
            else_branch = e () => (float[n, 4] b) { b = Identity(x) }
        >
    """
    model, done = raised(save(tmp_path, body), 18)
    branch = model.graph.node[2].attribute[0].g
    assert branch.node[0].input[1] == "axes_1"
    assert not branch.node[0].attribute
    assert sum(done.edited.values()) == 2


@pytest.mark.parametrize(
    ("old", "body"),
    [
        (17, "a = ReduceSum(x) b = ReduceMean(x) c = Add(a, b) y = Mul(x, c)"),
        (11, "y = Softmax <axis = -1> (x)"),
        (12, "y = LogSoftmax <axis = 1> (x)"),
        (12, "y = Softmax(x)"),
        (12, "e = Erf(x) y = Identity(e)"),
        (11, "k = Constant <value = int64[1] {2}> () v, p = TopK <axis = 1> (x, k) w = ReduceSum(v) y = Mul(x, w)"),
    ],
)
def test_what_means_the_same_needs_no_edit(tmp_path: Path, old: int, body: str) -> None:
    """Reductions over all axes, softmax over the last axis, an explicit or a defaulted one."""
    _, done = raised(save(tmp_path, body, opset=old), 20)
    assert done.edited == {}


def test_batch_norm_in_inference_is_raised(tmp_path: Path) -> None:
    """One output: the renamed statistics and the training mode do not concern it."""
    constants = "float[4] s = {1,2,3,4}, float[4] b = {0,1,0,1}, float[4] m = {0,1,2,3}, float[4] v = {1,1,2,2}"
    raised(save(tmp_path, "y = BatchNormalization(x, s, b, m, v)", opset=9, constants=constants), 20)


@pytest.mark.parametrize(("old", "new"), [(10, 18), (13, 21), (13, 23), (21, 24)])
def test_quantized_models_are_raised(tmp_path: Path, old: int, new: int) -> None:
    """QuantizeLinear and DequantizeLinear got types, block sizes and precisions, none of which is on by default."""
    body = "q = QuantizeLinear(x, scale, zero) y = DequantizeLinear(q, scale, zero)"
    raised(save(tmp_path, body, opset=old, constants="float scale = {0.01}, uint8 zero = {128}"), new)


def test_roi_align_keeps_its_sampling(tmp_path: Path) -> None:
    """Its default became half_pixel at opset 16; what it did before got a name."""
    body = "i = Unsqueeze(x, z) r = RoiAlign <output_height = 2, output_width = 2> (i, rois, b) y = Flatten(r)"
    constants = "int64[2] z = {0, 1}, float[1, 4] rois = {0, 0, 3, 1}, int64[1] b = {0}"
    model, _ = raised(save(tmp_path, body, opset=15, constants=constants), 16)
    modes = [item.s for item in model.graph.node[1].attribute if item.name == "coordinate_transformation_mode"]
    assert modes == [b"output_half_pixel"]


@pytest.mark.parametrize("mode", ["", "bilinear", "bicubic", "nearest"])
def test_grid_sample_keeps_its_mode_under_its_new_name(tmp_path: Path, mode: str) -> None:
    message = f'<mode = "{mode}">' if mode else ""
    body = f"i = Unsqueeze(x, z) s = GridSample {message} (i, grid) y = Flatten(s)"
    constants = "int64[2] z = {0, 1}, float[1, 2, 2, 2] grid = {-1.2, 0.1, 0.3, -0.2, 0.9, 0.4, 1.3, 0.0}"
    model, done = raised(save(tmp_path, body, opset=16, constants=constants), 22)
    became = {"bilinear": [b"linear"], "bicubic": [b"cubic"], "nearest": [b"nearest"], "": []}[mode]
    assert [item.s for item in model.graph.node[1].attribute] == became
    assert bool(done.edited) == mode.startswith("bi")


def test_nodes_of_the_training_info_block_where_they_would_change(tmp_path: Path) -> None:
    """They follow the opset of the model, and are not looked into; what means the same there blocks nothing."""
    path = save(tmp_path, "y = Relu(x)", opset=12)
    model = onnx.load(path)
    algorithm = model.training_info.add().algorithm
    algorithm.name = "training"
    algorithm.node.add(op_type="Exp", input=["y"], output=["z"])
    onnx.save(model, path)
    assert upgrade(path, 13, tmp_path / "same.onnx").outcome == "proved"
    algorithm.node.add(op_type="Softmax", input=["z"], output=["s"])
    squeeze = algorithm.node.add(op_type="Squeeze", input=["z"], output=["q"])
    squeeze.attribute.append(onnx.helper.make_attribute("axes", [0]))
    onnx.save(model, path)
    with pytest.raises(GraphError) as raised_error:
        upgrade(path, 13, tmp_path / "out.onnx")
    assert "Softmax at s in the training info (Softmax: works over the flattened axes" in str(raised_error.value)
    assert "Squeeze at q in the training info (Squeeze: attribute axes became an input" in str(raised_error.value)
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("old", "new", "body", "words"),
    [
        (6, 17, "y = Add <broadcast = 1> (x, one)", "Add at /y/Add"),
        (6, 11, "y = Clip <max = 1.0> (x)", "Clip at /y/Clip"),
        (10, 11, "t = acme.Odd(x) y = Resize(x, t)", "Resize at /y/Resize (since opset 11, its rounding depends on"),
        (10, 11, "y = Clip <max = 1.0> (x, x)", "the node has 2 inputs"),
        (10, 11, "o = acme.Odd(x) y = Clip <max = 1.0> (o)", "and its dtype is unknown"),
        (17, 18, "y = Frobnicate(x)", "Frobnicate at /y/Frobnicate (the op is not defined"),
        pytest.param(
            *(12, 13, "i = Cast <to = 7> (x) e = Erf(i) y = Cast <to = 1> (e)", "(since opset 13, its input input"),
            marks=pytest.mark.skipif(not ERF_TAKES_NO_INTEGERS, reason="onnx before 1.20 says that Erf-13 takes them"),
        ),
        (11, 13, "y = Squeeze <axes = [0]> (x, x)", "the node has 2 inputs"),
        (20, 21, "y = GroupNormalization <num_groups = 2> (x, x, one)", "per channel, but they are not constants"),
    ],
)
def test_what_would_change_its_meaning_blocks(tmp_path: Path, old: int, new: int, body: str, words: str) -> None:
    """One sentence names op, node and reason; nothing is written."""
    constants = "float one = {1}, int64[2] z = {0, 1}, int64[4] r = {1, 1, 2, 2}"
    path = save(tmp_path, body, opset=old, constants=constants, imports=', "acme" : 1')
    result = run("upgrade", path, tmp_path / "out.onnx", "--opset", new)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_many_blocking_nodes_are_summed_up(tmp_path: Path) -> None:
    """Three names and how many more."""
    names = ["x", *(f"t{place}" for place in range(5)), "y"]
    body = " ".join(f"{names[i + 1]} = Resize({names[i]}, one)" for i in range(6))
    with pytest.raises(GraphError, match=r"change the meaning of 6 nodes: Resize at .*/t2/Resize and 3 more \("):
        upgrade(save(tmp_path, body.replace("one", "x"), opset=10), 11, tmp_path / "out.onnx")


FUNCTION = '<domain: "my", opset_import: ["" : 17]> f (v) => (u) {{ {body} }}'


def test_a_function_keeps_its_import_where_its_ops_are_the_same(tmp_path: Path) -> None:
    """Relu is version 14 at 17 and at 20: model and function agree on it."""
    function = FUNCTION.format(body="u = Relu(v)")
    model, done = raised(save(tmp_path, "y = my.f(x)", functions=function, imports=', "my" : 1'), 20)
    assert model.functions[0].opset_import[0].version == 17
    assert done.functions == []


def test_a_function_is_raised_with_the_model_where_they_would_disagree(tmp_path: Path) -> None:
    """Equal is version 13 at 17 and 19 at 20; ONNX wants one schema for both."""
    function = FUNCTION.format(body="c = Equal(v, v) u = Where(c, v, v)")
    model, done = raised(save(tmp_path, "y = my.f(x)", functions=function, imports=', "my" : 1'), 20)
    assert model.functions[0].opset_import[0].version == 20
    assert done.functions == ["my::f"]


def test_a_function_that_needs_an_edit_blocks(tmp_path: Path) -> None:
    """No initializer can be put into a function."""
    path = save(
        tmp_path, "y = my.f(x)", functions=FUNCTION.format(body="u = ReduceMean <axes = [1]> (v)"), imports=', "my" : 1'
    )
    with pytest.raises(GraphError, match=r"ReduceMean at .* in function my::f"):
        upgrade(path, 18, tmp_path / "out.onnx")


def test_an_attribute_that_each_call_gives_blocks(tmp_path: Path) -> None:
    """AveragePool means another thing with ceil_mode from 19 on: nobody knows what a call will give."""
    function = (
        '<domain: "my", opset_import: ["" : 17]> f <mode: int = 0> (v) => (u) '
        "{ u = AveragePool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode: int = @mode> (v) }"
    )
    path = save(tmp_path, "y = my.f(x)", functions=function, imports=', "my" : 1')
    with pytest.raises(GraphError, match=r"AveragePool .*its attribute ceil_mode depends on the call"):
        upgrade(path, 20, tmp_path / "out.onnx")


@pytest.mark.parametrize(("opset", "words"), [(13, "not lower opsets"), (99, "Opset 99 does"), (0, "Opset 0 does")])
def test_opsets_that_make_no_sense_are_refused(tmp_path: Path, opset: int, words: str) -> None:
    """Lower, unknown, zero."""
    with pytest.raises(UsageError, match=words):
        upgrade(gelus(tmp_path), opset, tmp_path / "out.onnx")
    assert run("upgrade", gelus(tmp_path), tmp_path / "out.onnx", "--opset", opset).exit_code == 2


def test_the_domain_spelled_out_is_raised_as_it_is_spelled(tmp_path: Path) -> None:
    """ "ai.onnx" means the default domain and stays "ai.onnx"."""
    path = gelus(tmp_path)
    model = onnx.load(path)
    model.opset_import[0].domain = "ai.onnx"
    path.write_bytes(model.SerializeToString())
    upgrade(path, 20, tmp_path / "out.onnx", check="none")
    imports = onnx.load(tmp_path / "out.onnx").opset_import
    assert [(item.domain, item.version) for item in imports] == [("ai.onnx", 20)]


def test_unproved_is_written_and_require_proof_refuses(tmp_path: Path) -> None:
    """A placeholder that cannot run: exit 0 and loud, or exit 1."""
    path, out = save(tmp_path, "a = my.Thing(x) y = Relu(a)", imports=', "my" : 1'), tmp_path / "out.onnx"
    result = run("upgrade", path, out, "--opset", 20, "--require-proof")
    assert result.exit_code == 1
    assert "UNPROVED" in result.stdout
    assert "wrote    nothing (" in result.stdout
    assert not out.exists()
    result = run("upgrade", path, out, "--opset", 20)
    assert result.exit_code == 0
    assert "UNPROVED" in result.stdout
    assert ops(out) == ["my::Thing", "Relu"]


def test_a_failed_check_writes_nothing(tmp_path: Path) -> None:
    """Exit 1 when the outputs differ; here no difference at all is allowed and the sums are ordered anew."""
    path, out = save(tmp_path, "y = ReduceMean <axes = [1]> (x)"), tmp_path / "out.onnx"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("surgeon.shapes.opsets.migration.ADAPTERS", {("ReduceMean", 18): _wrong})
        with pytest.raises(CheckFailed):
            upgrade(path, 18, out)
        assert run("upgrade", path, out, "--opset", 18).exit_code == 1
    assert not out.exists()


def _wrong(change: object) -> str:
    """Sum over the other axis."""
    return change.move("axes", np.asarray([0], np.int64))


def test_the_console_says_what_moved(tmp_path: Path) -> None:
    """Opset, IR, edits, outcome, file."""
    out = tmp_path / "out.onnx"
    result = run("upgrade", save(tmp_path, "y = ReduceMean <axes = [1]> (x)", ir_version=7), out, "--opset", 20)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "in.onnx  opset 17 → 20",
        "  IR      7 → 9",
        "  newer   ReduceMean x1",
        "  edited  ReduceMean: attribute axes became an input (x1)",
    ]
    assert lines[4].startswith("PROVED   on ")
    assert lines[-1].startswith(f"wrote    {out} (")
    assert run("upgrade", out, out, "--opset", 21, "--quiet").output == ""
