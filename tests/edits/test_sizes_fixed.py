"""Free dimensions fixed and renamed, shapes stated anew or dropped, opsets raised."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import helper

import surgeon
from surgeon.edits import AddOutput, Dim, Extract, Free, JoinDim, RaiseOpset, Rename, RenameDim, ShapesOf, StateTensor
from surgeon.errors import GraphError, UsageError
from tests.command_line import run
from tests.edits.test_sizes import answer, model, numbers, ops, shape

MODEL = Path(__file__).resolve().parents[2] / "notebooks" / "models" / "tiny_distilbert.onnx"
RESHAPING = """
g (float[batch, length, 8] x) => (float[batch, length, 8] y)
<int64[1] zero = {0}, int64[1] one = {1}, int64[1] heads = {2}, int64[1] width = {4}, int64[1] all = {8}>
{ s = Shape (x)  b = Gather (s, zero)  l = Gather (s, one)  t = Concat <axis = 0> (b, l, heads, width)
  h = Reshape (x, t)  r = Relu (h)  u = Concat <axis = 0> (b, l, all)  y = Reshape (r, u) }
"""


def dims(made):
    """All that a model states of shapes, by tensor."""
    return {entry.name: shape(entry) for entry in (*made.graph.input, *made.graph.output, *made.graph.value_info)}


def test_arithmetic_that_is_constant_becomes_a_constant():
    made, report = surgeon.edit(model(RESHAPING), [Dim("batch", 2), Dim("length", 5)])
    assert report.outcome == "proved"
    assert [op for op in ops(made) if op != "Constant"] == ["Reshape", "Relu", "Reshape"]
    assert dims(made) == {"x": [2, 5, 8], "y": [2, 5, 8]}
    assert [done.said[1] for done in report.edits] == [
        "1 node of shape arithmetic became constant",
        "4 nodes of shape arithmetic became constant",
    ]
    x = numbers(2, 5, 8)
    assert np.array_equal(answer(made, x)[0], np.maximum(x, 0))


def test_arithmetic_on_what_stays_free_stays():
    made, report = surgeon.edit(model(RESHAPING), Dim("batch", 2))
    assert report.outcome == "proved"
    assert ops(made).count("Concat") == 2
    assert answer(made, numbers(2, 3, 8))[0].shape == (2, 3, 8)


def test_fixed_and_dynamic_again_answers_the_same():
    made, _ = surgeon.edit(model(RESHAPING), [Dim("batch", 1), Dim("length", 5)])
    made, report = surgeon.edit(made, [Free(0, "batch"), Free(1, "length")])
    x = numbers(3, 4, 8)
    assert np.array_equal(answer(made, x)[0], np.maximum(x, 0))
    assert dims(made) == {"x": ["batch", "length", 8], "y": ["batch", "length", 8]}
    assert report.outcome == "proved"  # nothing in it sees two places at once


def test_a_real_model_is_fixed(tmp_path):
    fixed, report = surgeon.edit(MODEL, [Dim("batch", 3), Dim("sequence", 6)], output=tmp_path / "fixed.onnx")
    assert report.outcome == "proved"
    source, made = onnx.load(MODEL), onnx.load(fixed)
    assert all(isinstance(size, int) for entry in (*made.graph.input, *made.graph.output) for size in shape(entry))
    assert "Shape" not in ops(made)
    feeds = {entry.name: np.ones((3, 6), np.int64) for entry in made.graph.input}
    one, other = (
        ort.InferenceSession(item.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
        for item in (source, made)
    )
    assert np.allclose(one[0], other[0], atol=1e-5)


def stating(text, **more):
    """A model that states shapes of inner tensors too."""
    made = model(text)
    for name, sizes in more.items():
        made.graph.value_info.append(helper.make_tensor_value_info(name, 1, sizes))
    return made


def test_a_size_is_put_into_expressions():
    source = model("g (float[n, m] x, float[a, m] w) => (float[b, m] y) { y = Concat <axis = 0> (x, w) }")
    for entry, text in ((source.graph.input[1], "n + 1"), (source.graph.output[0], "2*n + 1")):
        entry.type.tensor_type.shape.dim[0].dim_param = text
    made, report = surgeon.edit(source, Dim("n", 3))
    assert report.outcome == "proved"
    assert dims(made) == {"x": [3, "m"], "w": [4, "m"], "y": [7, "m"]}


def test_a_name_is_changed_in_expressions_too():
    source = stating("g (float[n, m] x) => (float[n, k] y) { z = Neg (x)  y = Relu (z) }", z=["n", "floor(m/2) + nn*n"])
    made, report = surgeon.edit(source, RenameDim("n", "batch"))
    assert report.outcome == "proved"
    assert report.check is None
    assert dims(made) == {"x": ["batch", "m"], "z": ["batch", "floor(m/2) + nn*batch"], "y": ["batch", "k"]}
    back, _ = surgeon.edit(made, RenameDim("batch", "n"))
    assert back.SerializeToString() == source.SerializeToString()


def test_two_dimensions_that_are_always_of_one_size_bear_one_name():
    text = "g (float[n, m] x, float[k, m] w) => (float[a, m] y) { z = Neg (x)  y = Add (z, w) }"
    source = stating(text, z=["n", "m"])
    source.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "max(k, n)"
    made, report = surgeon.edit(source, [JoinDim("k", "n"), Rename("w", "v")], check="model")
    assert report.outcome == "proved"
    assert report.by_structure
    assert dims(made) == {"x": ["n", "m"], "v": ["n", "m"], "z": ["n", "m"], "y": ["max(n, n)", "m"]}
    source.graph.input[1].type.tensor_type.shape.dim[0].Clear()
    made, _ = surgeon.edit(source, JoinDim("w[0]", "n"))
    assert shape(made.graph.input[1]) == ["n", "m"]
    same, report = surgeon.edit(source, JoinDim("n", "n"))
    assert report.outcome == "unchanged"


ATTENTION = """
g (float[b, 2, s, 8] q, float[b, 2, s, 8] k, float[b, 2, s, 8] v, float[c, 1, 1, t] mask) => (float[b, 2, s, 8] y)
{ kt = Transpose <perm = [0, 1, 3, 2]> (k)  p = MatMul (q, kt)  m = Add (p, mask)  w = Softmax (m)  y = MatMul (w, v) }
"""


def test_an_attention_is_found_once_its_mask_is_of_the_same_batch():
    _, report = surgeon.rewrite(model(ATTENTION), "attention")
    assert not report.sites
    text = "the mask has c batches, but the queries have b; if both sizes are always equal, declare it with surgeon"
    assert text in report.misses[0].reason
    joined, _ = surgeon.edit(model(ATTENTION), [JoinDim("c", "b"), JoinDim("t", "s")])
    _, report = surgeon.rewrite(joined, "attention")
    assert [site.outcome for site in report.sites] == ["proved"]


def test_names_in_bodies_and_of_places_without_one():
    text = """
    g (float[n] x, bool c) => (float[n] y)
    { y = If (c) <
        then_branch = a () => (float[n] t) { t = Neg (x) },
        else_branch = b () => (float[n] e) { e = Abs (x) }
      > }
    """
    made, _ = surgeon.edit(model(text), RenameDim("n", "k"))
    branches = [item.g.output[0] for item in made.graph.node[0].attribute]
    assert [shape(entry) for entry in (*made.graph.input[:1], *branches)] == [["k"]] * 3
    source = model("g (float[n] x) => (float[n] y) { y = Relu (x) }")
    source.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    made, _ = surgeon.edit(source, RenameDim("x[0]", "n2"))
    assert shape(made.graph.input[0]) == ["n2"]
    made, report = surgeon.edit(source, Dim("x[0]", 4))
    assert shape(made.graph.input[0]) == [4]
    assert report.outcome == "proved"


def test_edits_of_dimensions_know_each_other():
    edits = [RenameDim("batch", "n"), Rename("x", "pixels"), Dim("n", 3)]
    made, report = surgeon.edit(model(RESHAPING), edits, check="model")
    assert report.outcome == "proved", report.check.reason
    assert shape(made.graph.input[0]) == [3, "length", 8]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Dim("bach", 2), "did you mean 'batch'?"),
        (Dim("batch", -1), "cannot be -1"),
        (Dim("batch", 2.5), "cannot be 2.5. Give an integer"),
        (Dim("x[2]", 9), "'x[2]' is fixed at 8. Make it dynamic first, with --dim x[2]=batch"),
        (Dim("x[7]", 9), "has 3 axes"),
        (Dim("z[0]", 9), "no input 'z'"),
        (RenameDim("batch", "length"), "Another dimension is already called 'length'"),
        (RenameDim("bath", "n"), "did you mean 'batch'?"),
        (RenameDim("batch", "length"), "use --join-dim batch=length"),
        (RenameDim("batch", "a+b"), "Invalid dimension name"),
        (JoinDim("bath", "length"), "did you mean 'batch'?"),
        (JoinDim("batch", "n"), "The model has no dimension 'n'"),
        (ShapesOf("forget"), "Choose infer or drop"),
        (RaiseOpset(99), "Opset 99 does not exist"),
        (RaiseOpset(11), "does not lower opsets"),
    ],
)
def test_bad_input_is_refused(edit, why):
    with pytest.raises(UsageError) as refusal:
        surgeon.edit(model(RESHAPING), edit)
    assert why in str(refusal.value)


@pytest.mark.parametrize("text", ["batch", "=3", "batch="])
def test_what_is_no_pair_is_refused(text):
    with pytest.raises(UsageError, match="is not of the form"):
        Dim.parse(text)


def test_shapes_are_stated_for_any_size_and_dropped():
    source = stating(RESHAPING, h=[1, 1, 1, 1])
    source.graph.value_info[0].doc_string = "kept"
    made, report = surgeon.edit(source, ShapesOf("infer"))
    assert report.outcome == "proved"
    stated = dims(made)
    assert stated["h"] == stated["r"] == ["batch", "length", 2, 4]
    assert stated["t"] == [4]
    assert made.graph.value_info[[item.name for item in made.graph.value_info].index("h")].doc_string == "kept"
    onnx.checker.check_model(made, full_check=True)
    bare, report = surgeon.edit(made, ShapesOf("drop"))
    assert not bare.graph.value_info
    assert report.outcome == "proved"
    assert surgeon.edit(bare, ShapesOf("drop"))[1].outcome == "unchanged"


def test_what_stated_a_fixed_size_states_what_follows():
    source = stating("g (float[1, 4] x) => (float[1, 4] y) { z = Neg (x)  y = Relu (z) }", z=[1, 4])
    made, _ = surgeon.edit(source, Free(0, "n"))
    assert dims(made) == {"x": ["n", 4], "z": ["n", 4], "y": ["n", 4]}


def test_an_opset_is_raised_with_edits_beside_it():
    source = model("g (float[n, 4] x) => (float[n] y) { y = ReduceMean <axes = [1], keepdims = 0> (x) }", opset=13)
    made, report = surgeon.edit(source, [Rename("x", "z"), RaiseOpset(18), RenameDim("n", "batch")])
    assert report.outcome == "proved"
    assert made.opset_import[0].version == 18
    assert len(made.graph.node[0].input) == 2
    assert report.edits[1].said[0] == "ai.onnx is raised from opset 13 to 18"
    assert surgeon.edit(made, RaiseOpset(18))[1].outcome == "unchanged"


def test_an_opset_that_would_change_a_meaning_is_refused():
    source = model("g (float[2, 3, 4] x, float[3] s) => (float[2, 3, 4] y) { y = Resize(x, s) }", opset=10)
    with pytest.raises(GraphError, match="Resize at y"):
        surgeon.edit(source, RaiseOpset(11))


def test_the_command_line(tmp_path):
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model(RESHAPING, opset=17), source)
    typed = ["--dim", "batch=2", "--rename-dim", "length=tokens", "--shapes", "infer", "--opset", "21"]
    done = run("edit", source, out, *typed)
    assert done.exit_code == 0, done.output
    made = onnx.load(out)
    assert shape(made.graph.input[0]) == [2, "tokens", 8]
    assert made.opset_import[0].version == 21
    assert run("edit", source, tmp_path / "no.onnx", "--dim", "batch=many").exit_code == 2
    assert run("edit", source, tmp_path / "no.onnx", "--opset", "new").exit_code == 2
    assert not (tmp_path / "no.onnx").exists()


UNKNOWN = "g (float[n, 4] x) => (float[n, 4] y) { h = acme.Turn (x)  y = Relu (h) }"


def unknown():
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18, "acme" : 1]> {UNKNOWN}')


def test_what_an_unknown_op_makes_is_stated():
    """A cut behind it says what is lacking, as a command that mends it."""
    with pytest.raises(UsageError, match=r"--state 'h=DTYPE\[SIZE,\.\.\.\]'"):
        surgeon.edit(unknown(), Extract(("h",), ("y",)))
    state = StateTensor.parse("h=float[n, 4]")
    assert (state, state.spelling) == (StateTensor("h", "float", ("n", 4)), "h=float[n,4]")
    made, report = surgeon.edit(unknown(), [state, AddOutput("h")], check="none")
    assert report.edits[0].said == ("'h' is declared as float32[n, 4]",)
    assert dims(made)["h"] == ["n", 4]
    part, _ = surgeon.edit(made, Extract(("h",), ("y",)), check="none")
    assert [value.name for value in part.graph.input] == ["h"]


def test_a_statement_takes_the_place_of_another():
    stated, _ = surgeon.edit(unknown(), StateTensor("h", "float32", (2, 4)), check="none")
    stated.graph.value_info[0].doc_string = "kept"
    again, _ = surgeon.edit(stated, StateTensor("h", "int64", ("n", "?", 3)), check="none")
    (value,) = again.graph.value_info
    assert (value.doc_string, value.type.tensor_type.elem_type) == ("kept", onnx.TensorProto.INT64)
    assert dims(again)["h"] == ["n", 0, 3]  # of the second neither a name nor a number is stated
    assert surgeon.edit(again, StateTensor("h", "int64", ("n", "?", 3)))[1].outcome == "unchanged"
    scalar, _ = surgeon.edit(unknown(), StateTensor.parse("h=bool[]"), check="none")
    assert dims(scalar)["h"] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("h=float", "is not of the form"),
        ("h=[2]", "is not of the form"),
        ("h=float[2", "is not of the form"),
        ("h=flot[2]", "'flot' is not an ONNX dtype"),
        ("h=float[2,a+b]", "Invalid size 'a+b'"),
        ("h=float[2,]", "Invalid size ''"),
        ("h=float[99999999999999999999]", "Invalid size 99999999999999999999"),
        ("h=undefined[2]", "'undefined' is not a dtype"),
        ("x=float[2]", "No node produces 'x'"),
        ("q=float[2]", "no tensor 'q'"),
        ("y=float[n,5]", "'y' is float32[n, 4] in the model, so it cannot be float32[n, 5]"),
        ("y=float[n]", "in the model, so it cannot be"),
        ("y=int64[n,4]", "in the model, so it cannot be"),
    ],
)
def test_what_cannot_be_stated_is_refused(text, why):
    with pytest.raises(UsageError) as refusal:
        surgeon.edit(unknown(), StateTensor.parse(text))
    assert why in str(refusal.value)


TWO = "g (float[N, 4] x, float[M, 4] y) => (float[N, 4] z) { z = Add(x, y) }"


@pytest.mark.parametrize(
    "edits",
    [
        [JoinDim("N", "M"), Dim("M", 3)],
        [JoinDim("N", "M"), RenameDim("M", "Q"), Dim("Q", 3)],
        [Rename("x", "q"), JoinDim("N", "M"), Dim("q[0]", 3)],
    ],
    ids=str,
)
def test_what_is_always_as_large_is_fixed_with_it(edits):
    """The original runs at that size of both."""
    made, report = surgeon.edit(model(TWO), edits, check="model")
    assert report.outcome == "proved"
    assert report.check.runs
    assert [value.type.tensor_type.shape.dim[0].dim_value for value in made.graph.input] == [3, 3]


def test_an_axis_without_a_name_is_that_of_the_original_behind_a_renaming():
    made = model("g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }")
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].Clear()
    _, report = surgeon.edit(made, [Rename("x", "q"), RenameDim("q[0]", "B"), Dim("B", 2)], check="model")
    assert report.outcome == "proved"


def test_sizes_that_no_node_takes_together_are_refused():
    """Every node is the original's own, and yet nothing runs it."""
    with pytest.raises(surgeon.UsageError, match="With M=5 a node cannot run, Add: Incompatible dimensions. Choose"):
        surgeon.edit(model(TWO), [Dim("N", 3), Dim("M", 5)])


def test_a_shape_that_an_output_misstates_stops_no_size():
    made = model("g (float[N, 4] x) => (float[7, 4] y) { y = Relu(x) }")
    _, report = surgeon.edit(made, Dim("N", 3))
    assert report.outcome == "proved"


@pytest.mark.parametrize("sizes", [(True, 4), (1.5, 4), (None, 4), None, "n4", (1 << 63, 4)], ids=str)
def test_what_is_no_size_is_refused_in_python_too(sizes):
    with pytest.raises(UsageError, match="Invalid size|must be a list"):
        surgeon.edit(unknown(), StateTensor("h", "float32", sizes), check="none")


@pytest.mark.parametrize(
    ("stated", "found"),
    [("n, 4", [2, 8]), ("m, n", [2, 8]), ("7, 8", [2, 8]), ("n", [2, 8]), ("n, 8", [2, 8]), ("n, m", [2, "m"])],
)
def test_an_output_that_is_stated_otherwise_than_made_is_stated_anew(stated, found):
    """A size is put into no statement that was wrong before; what may be right stays."""
    source = model(f"g (float[n, 8] x) => (float[{stated}] y) {{ a = Neg (x)  y = Relu (a) }}")
    made, report = surgeon.edit(source, Dim("n", 2))
    assert report.outcome == "proved"
    assert dims(made)["y"] == found
    reported = [words for words in report.edits[0].said if "is declared as" in words]
    assert len(reported) == (stated not in ("n, 8", "n, m"))


BEHIND = {
    "a tensor of it": "d = Concat <axis = 0> (k, k)",
    "another number over a shape": "d = ConstantOfShape <value = float[1] {5}> (two)",
    "zero over a shape": "d = ConstantOfShape (two)",
    "a number": "d = Constant <value = float {7}> ()",
    "a column of a table": "j = Gather (s, nil)  d = Gather <axis = 1> (table, j)",
}


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_a_body_computes_with_sizes_that_are_folded_around_it(behind):
    """Whatever node comes to the place of the one that makes what the body reads."""
    source = model(
        f"g (float[n, 2] x) => (float[] y, float[] z) <int64 nil = {{0}}, int64[2] two = {{2, 2}}, "
        f"float zero = {{0}}, float[3, 3] table = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}> "
        f"{{ s = Shape (x)  k = ConstantOfShape <value = float[1] {{2}}> (s)  {behind}  z = Identity (d) "
        f"t = ReduceSum <keepdims = 0> (x)  b = Greater (t, zero)  v = If (b) "
        f"<then_branch = one () => (float[] r) {{ r = Mul (k, k) }}, "
        f"else_branch = other () => (float[] o) {{ h = Abs (k)  o = Add (k, h) }}>  y = Mul (v, t) }}"
    )
    made, report = surgeon.edit(source, Dim("n", 2))
    assert report.outcome == "proved"
    for x in (np.full((2, 2), 3, np.float32), np.full((2, 2), -3, np.float32)):
        assert all(map(np.array_equal, answer(made, x), answer(source, x)))
