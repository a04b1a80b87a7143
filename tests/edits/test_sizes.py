"""Sizes freed: what holds the old size follows, and nothing else does."""

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon.edits import Dim, DropOutput, Free, Rename
from surgeon.edits.dynamic_dims import choose_solution
from surgeon.edits.dynamic_dims.reshape_candidates import candidate_shapes, target_for
from surgeon.errors import CheckFailed, GraphError, SurgeonError, UsageError
from surgeon.shapes.algebra.size_expressions import parse_size
from tests import sampling
from tests.command_line import run
from tests.edits import sizes
from tests.onnx_cases import onnx_cases

SAMPLE = [("bert", "ts"), ("lstm", "dynamo"), ("encoder", "ts"), ("classifier", "dynamo")]
UNPROVED = {"bert_loss", "gpt2", "feature_classifier"}  # each has a loss beside what it answers for each sample
REFUSED = {"clip"}  # its loss counts the samples by a constant


def model(text, opset=18):
    """A model of the lines of a graph."""
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> {text}')


def answer(made, *arrays):
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip((entry.name for entry in session.get_inputs()), arrays, strict=True)))


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def ops(made):
    return [node.op_type for node in made.graph.node]


def value(made, name):
    """A stored tensor, as a list."""
    return next(numpy_helper.to_array(item).tolist() for item in made.graph.initializer if item.name == name)


def shape(entry):
    return [dim.dim_param or dim.dim_value for dim in entry.type.tensor_type.shape.dim]


@pytest.mark.parametrize(("arch", "exporter"), sampling.chosen(lambda: SAMPLE, lambda: sizes.WITH_BATCHES))
def test_an_export_at_one_batch_answers_as_torch_at_any(arch, exporter, tmp_path):
    row = sizes.check(arch, exporter, tmp_path)
    assert row.outcome == ("refused" if arch in REFUSED else "unproved" if arch in UNPROVED else "proved"), row.said
    assert all(row.right.values())
    assert bool(row.right) is (arch not in REFUSED)


LONGER = [("bert", "ts"), ("convnext", "dynamo")]


@pytest.mark.parametrize(("arch", "exporter"), sampling.chosen(lambda: LONGER, lambda: sizes.WITH_LENGTHS))
def test_an_export_at_one_length_answers_as_torch_at_others(arch, exporter, tmp_path):
    row = sizes.check_length(arch, exporter, tmp_path)
    assert row.outcome == "unproved", row.said
    assert row.right
    assert all(row.right.values())


HEADS = """
g (float[1, 7, 32] x) => (float[1, 7, 32] y)
<int64[4] split = {1, 7, 4, 8}, int64[3] whole = {1, 7, 32}>
{ h = Reshape (x, split)  t = Transpose <perm = [0, 2, 1, 3]> (h)  r = Relu (t)
  b = Transpose <perm = [0, 2, 1, 3]> (r)  y = Reshape (b, whole) }
"""


def test_a_reshape_says_by_itself_what_it_keeps():
    made, report = surgeon.edit(model(HEADS), Free(0, "batch"))
    assert report.outcome == "proved", report.check.reason
    assert [value(made, node.input[1]) for node in made.graph.node if node.op_type == "Reshape"] == [
        [0, 7, 4, 8],
        [0, 7, 32],
    ]
    assert "Shape" not in ops(made)
    assert shape(made.graph.output[0]) == ["batch", 7, 32]
    assert {item.name for item in made.graph.initializer} == {"sizes_0_7_4_8", "sizes_0_7_32"}


def test_twelve_heads_are_kept_apart_from_twelve_tokens():
    text = """
    g (float[1, 12, 96] x) => (float[1, 12, 96] y) <int64[4] split = {1, 12, 12, 8}, int64[3] whole = {1, 12, 96}>
    { h = Reshape (x, split)  t = Transpose <perm = [0, 2, 1, 3]> (h)  s = Softmax <axis = -1> (t)
      b = Transpose <perm = [0, 2, 1, 3]> (s)  y = Reshape (b, whole) }
    """
    made, _ = surgeon.edit(model(text), Free(1, "tokens"))
    targets = [value(made, node.input[1]) for node in made.graph.node if node.op_type == "Reshape"]
    assert targets == [[1, 0, 12, 8], [1, 0, 96]]
    x = numbers(1, 5, 96)
    wanted = np.exp(x.reshape(1, 5, 12, 8))
    assert np.allclose(answer(made, x)[0], (wanted / wanted.sum(-1, keepdims=True)).reshape(1, 5, 96), atol=1e-6)


def test_one_constant_that_is_read_for_two_reasons_becomes_two():
    text = """
    g (float[3, 4] x, float[3, 4] w) => (float[3, 4] y, float[3, 4] z) <int64[2] same = {3, 4}>
    { a = Relu (x)  y = Reshape (a, same)  b = Relu (w)  z = Reshape (b, same) }
    """
    made, _ = surgeon.edit(model(text), Free(0, "rows", "x"))
    targets = [value(made, node.input[1]) for node in made.graph.node if node.op_type == "Reshape"]
    assert targets == [[0, 4], [3, 4]]


def test_a_batch_merged_with_heads_is_asked_of_the_input():
    text = """
    g (float[5, 1, 32] x) => (float[5, 1, 32] y)
    <int64[3] merged = {5, 4, 8}, int64[3] apart = {5, 1, 32}>
    { h = Reshape (x, merged)  t = Transpose <perm = [1, 0, 2]> (h)  q = Transpose <perm = [0, 2, 1]> (t)
      s = MatMul (t, q)  p = Softmax <axis = -1> (s)  o = MatMul (p, t)  b = Transpose <perm = [1, 0, 2]> (o)
      y = Reshape (b, apart) }
    """
    made, report = surgeon.edit(model(text), Free(1, "batch"))
    assert report.outcome == "proved", report.check.reason
    assert "7" in report.check.reason
    assert answer(made, numbers(5, 3, 32))[0].shape == (5, 3, 32)


def test_a_token_is_repeated_for_each_sample():
    text = """
    g (float[1, 4, 3] x) => (float[1, 5, 3] y)
    { token = Constant <value = float[1, 1, 3] {1, 2, 3}> ()  y = Concat <axis = 1> (token, x) }
    """
    made, report = surgeon.edit(model(text), Free(0, "batch"))
    assert report.outcome == "proved"
    assert ops(made)[-2:] == ["Expand", "Concat"]
    assert answer(made, numbers(6, 4, 3))[0][:, 0].tolist() == [[1, 2, 3]] * 6


def test_states_that_begin_at_nothing_follow():
    size = 2
    given = [("W", (1, 4 * size, 3)), ("R", (1, 4 * size, size)), ("h", (1, 1, size)), ("c", (1, 1, size))]
    stored = [numpy_helper.from_array(numbers(*dims) * (name in "WR"), name) for name, dims in given]
    nodes = [
        helper.make_node("LSTM", ["x", "W", "R", "", "", "h", "c"], ["y"], hidden_size=size),
    ]
    x, y = (helper.make_tensor_value_info(name, 1, dims) for name, dims in (("x", [5, 1, 3]), ("y", [5, 1, 1, size])))
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made, report = surgeon.edit(source, Free(1, "batch"))
    assert report.outcome == "proved"
    assert ops(made).count("Expand") == 2
    assert shape(made.graph.output[0]) == [5, 1, "batch", 2]


FOLLOWING = {
    "Expand": ("int64[2] s = {6, 4}", "e = Expand (k, s)  y = Add (x, e)", "float[1, 4] k = {1, 2, 3, 4}"),
    "ConstantOfShape": ("int64[2] s = {6, 4}", "e = ConstantOfShape (s)  y = Add (x, e)", ""),
    "Range": (
        "int64 a = {0}, int64 s = {6}, int64 d = {1}, int64[1] one = {1}",
        "r = Range (a, s, d)  f = Cast <to = 1> (r)  e = Unsqueeze (f, one)  y = Add (x, e)",
        "",
    ),
    "Slice": (
        "int64[1] a = {0}, int64[1] s = {6}",
        "e = Slice (k, a, s)  y = Add (x, e)",
        f"float[9, 1] k = {{{', '.join(map(str, range(9)))}}}",
    ),
    "Tile": ("int64[2] s = {6, 1}", "e = Tile (k, s)  y = Add (x, e)", "float[1, 4] k = {1, 2, 3, 4}"),
    "Expand before a Flatten": (
        "int64[3] s = {6, 2, 2}",
        "e = Expand (k, s)  f = Flatten (e)  y = Add (x, f)",
        "float[1, 2, 2] k = {1, 2, 3, 4}",
    ),
    "zeros": ("", "y = Add (x, k)", f"float[6, 1] k = {{{', '.join(['0'] * 6)}}}"),
    "end": ("int64[1] a = {0}, int64[1] s = {6}", "e = Slice (x, a, s)  y = Relu (e)", ""),
    "shape": ("int64[2] s = {6, 4}", "e = Expand (k, s)  t = Mul (e, x)  y = Reshape (t, s)", "float k = {2}"),
    "indices": ("int64[6] s = {0, 1, 2, 3, 4, 5}", "e = Gather (k, s)  y = Add (x, e)", "float[9, 1] k"),
}


@pytest.mark.parametrize("how", FOLLOWING)
def test_what_makes_the_old_size_of_a_number_follows(how):
    first, nodes, second = FOLLOWING[how]
    second = f"float[9, 1] k = {{{', '.join(map(str, range(9)))}}}" if second == "float[9, 1] k" else second
    stored = ", ".join(filter(None, (first, second)))
    made, report = surgeon.edit(
        model(f"g (float[6, 4] x) => (float[6, 4] y) {f'<{stored}>' if stored else ''} {{ {nodes} }}"), Free(0, "n")
    )
    # What tells places apart is not what the original makes of each six of them.
    assert report.outcome == ("unproved" if how in ("Range", "Slice", "indices") else "proved"), report.check.reason
    assert answer(made, numbers(8, 4))[0].shape == (8, 4)
    assert np.allclose(answer(made, numbers(8, 4)[:6])[0], answer(made, numbers(8, 4))[0][:6])


REFUSALS = {
    "y = Add (x, k)": ("float[6, 4] k = {%s}", "Add at 'y' reads 'k', which has the fixed size 6 instead of n"),
    "y = MatMul (w, x)": ("float[2, 6] w = {%s}", "MatMul at 'y' reads 'w', which has the fixed size 6 instead of n"),
    "y = Slice (x, a, b)": ("int64[1] a = {1}, int64[1] b = {6}", "slices 1:6 of n (it was 6)"),
    "y = Slice (x, a, b) ": ("int64[1] a = {0}, int64[1] b = {5}", "slices 0:5 of n (it was 6)"),
    "y = Gather (x, a)": ("int64[1] a = {5}", "reads position 5 of n (it was 6)"),
    "y = Split (x, a)": ("int64[1] a = {6}", ""),
    "y, z = Split (x, a)": ("int64[2] a = {2, 4}", "splits n into fixed parts"),
    "y = Reshape (x, a)": ("int64[3] a = {2, 3, 4}", "cannot reshape [n, 4] to [2, 3, 4]"),
}


@pytest.mark.parametrize("node", REFUSALS)
def test_what_cannot_be_reported_is_refused_with_the_node(node):
    stored, why = REFUSALS[node]
    if "%s" in stored:
        stored %= ", ".join(map(str, range(24 if "[6" in stored else 12)))
    source = model(f"g (float[6, 4] x) => (float[a, b] y) <{stored}> {{ {node} }}")
    if not why:
        made, _ = surgeon.edit(source, Free(0, "n"))
        assert answer(made, numbers(8, 4))[0].shape == (8, 4)
        return
    with pytest.raises(GraphError, match="'n' cannot be dynamic: ") as refusal:
        surgeon.edit(source, Free(0, "n"))
    assert why in str(refusal.value)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_sample_that_is_reported_by_a_constant_is_counted(batch):
    """As `hidden[arange(batch), last]` is written, which an export at one size folds."""
    index = numpy_helper.from_array(np.arange(batch).reshape(-1, 1), "first")
    nodes = [
        helper.make_node("ArgMax", ["i"], ["last"], axis=1, keepdims=1),
        helper.make_node("Concat", ["first", "last"], ["both"], axis=1),
        helper.make_node("GatherND", ["x", "both"], ["y"]),
    ]
    given = [helper.make_tensor_value_info(name, 1, dims) for name, dims in (("x", [batch, 5, 3]), ("i", [batch, 5]))]
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("y", 1, [batch, 3])], [index])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made, report = surgeon.edit(source, Free(0, "batch"))
    assert report.outcome == "proved", report.check.reason
    x, i = numbers(4, 5, 3), numbers(4, 5)[::-1].copy()
    assert np.array_equal(answer(made, x, i)[0], x[np.arange(4), i.argmax(1)])


@pytest.mark.parametrize("batch", [1, 2])
def test_a_mask_that_is_looked_up_by_tuples_follows(batch):
    """As masks of attention are written: places of samples and of words, folded."""
    sample, _, _, word = np.meshgrid(np.arange(batch), [0], [0], np.arange(5), indexing="ij")
    places = np.stack([sample, word], -1)
    nodes = [
        helper.make_node("GatherND", ["mask", "places"], ["m"]),
        helper.make_node("Add", ["scores", "m"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"]),
    ]
    sizes = {"mask": [batch, 5], "scores": [batch, 4, 5, 5]}
    given = [helper.make_tensor_value_info(name, 1, dims) for name, dims in sizes.items()]
    made = helper.make_tensor_value_info("y", 1, sizes["scores"])
    graph = helper.make_graph(nodes, "g", given, [made], [numpy_helper.from_array(places, "places")])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made, report = surgeon.edit(source, Free(0, "batch"))
    assert report.outcome == "proved", report.check.reason
    mask, scores = numbers(3, 5), numbers(3, 4, 5, 5)
    wanted = np.exp(scores + mask[:, None, None])
    assert np.allclose(answer(made, mask, scores)[0], wanted / wanted.sum(-1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_mask_that_is_laid_flat_follows(batch):
    """The same by numbers: the sample times the length of a row, and the word."""
    counted = ", ".join(map(str, range(batch)))
    text = f"""
    g (float[{batch}, 5] mask, float[{batch}, 4, 5, 5] scores) => (float[{batch}, 4, 5, 5] y)
    <int64[{batch}, 1, 1, 1] sample = {{{counted}}}, int64 row = {{5}}, int64[5] word = {{0, 1, 2, 3, 4}}>
    {{ start = Mul (sample, row)  place = Add (start, word)  flat = Flatten <axis = 2> (mask)
      found = Gather (flat, place)  last = Constant <value_ints = [-1]> ()  m = Squeeze (found, last)
      s = Add (scores, m)  y = Softmax (s) }}
    """
    made, report = surgeon.edit(model(text), Free(0, "batch"))
    assert report.outcome == "proved", report.check.reason
    mask, scores = numbers(3, 5), numbers(3, 4, 5, 5)
    wanted = np.exp(scores + mask[:, None, None])
    assert np.allclose(answer(made, mask, scores)[0], wanted / wanted.sum(-1, keepdims=True), atol=1e-6)


def test_bodies_follow_too():
    text = """
    g (float[1, 6] x, bool c) => (float[1, 2, 3] y) <int64[3] s = {1, 2, 3}>
    { y = If (c) <
        then_branch = yes () => (float[1, 2, 3] a) { a = Reshape (x, s) },
        else_branch = no () => (float[1, 2, 3] b) { n = Neg (x)  b = Reshape (n, s) }
      > }
    """
    made, report = surgeon.edit(model(text), Free(0, "batch", "x"))
    assert report.outcome == "proved", report.check.reason
    assert answer(made, numbers(3, 6), np.array(False))[0].shape == (3, 2, 3)


LOOPING = {
    "Loop": """
    g (float[1, 4] x, int64 n) => (float[1, 4] y) <bool on = {1}>
    { y = Loop (n, on, x) <body = b (int64 i, bool q, float[1, 4] s) => (bool p, float[1, 4] t)
        <int64[3] apart = {1, 2, 2}, int64[2] whole = {1, 4}>
        { p = Identity (q)  r = Reshape (s, apart)  a = Neg (r)  t = Reshape (a, whole) }
      > }
    """,
    "Scan": """
    g (float[1, 3, 4] x, float[1, 4] h) => (float[1, 4] y, float[3, 1, 4] z)
    { y, z = Scan <num_scan_inputs = 1, scan_input_axes = [1],
        body = b (float[1, 4] s, float[1, 4] e) => (float[1, 4] t, float[1, 4] o) { t = Add (s, e)  o = Identity (t) }
      > (h, x) }
    """,
}


@pytest.mark.parametrize("op", LOOPING)
def test_what_goes_from_turn_to_turn_follows(op):
    made, report = surgeon.edit(model(LOOPING[op]), Free(0, "batch"))
    assert report.outcome == "proved", report.check.reason
    fed = (numbers(3, 4), np.array(2)) if op == "Loop" else (numbers(3, 3, 4), numbers(3, 4))
    assert answer(made, *fed)[0].shape == (3, 4)


def test_a_function_is_not_changed():
    text = """
    g (float[1, 6] x) => (float[1, 2, 3] y) { y = local.split (x) }
    <domain: "local", opset_import: ["": 18]>
    split (x) => (y) { s = Constant <value_ints = [1, 2, 3]> ()  y = Reshape (x, s) }
    """
    source = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18, "local": 1]> {text}')
    with pytest.raises(GraphError, match="Inline it"):
        surgeon.edit(source, Free(0, "batch"))


def test_the_number_of_samples_as_a_number_is_seen_by_all():
    text = """
    g (float[1, 4] x) => (float[1, 4] y) <int64 zero = {0}>
    { s = Shape (x)  n = Gather (s, zero)  f = Cast <to = 1> (n)  y = Div (x, f) }
    """
    _, report = surgeon.edit(model(text), Free(0, "batch"))
    assert report.outcome == "unproved"
    assert report.check.reason.startswith("At batch=2 and 3 the edited model runs, but the original accepts only")


LOSS = "g (float[1, 3] x) => (float[1, 3] y, float m) { y = Relu (x)  m = ReduceMean <keepdims = 0> (x) }"


def test_beyond_the_old_size_nothing_stands_beside_what_sees_all_samples():
    _, report = surgeon.edit(model(LOSS), Free(0, "batch"))
    assert report.outcome == "unproved"
    assert "'m' depends on several samples" in report.check.reason
    with pytest.raises(CheckFailed, match="is not proved"):
        surgeon.edit(model(LOSS), Free(0, "batch"), require_proof=True)
    _, report = surgeon.edit(model(LOSS), [DropOutput("m"), Free(0, "batch")])
    assert report.outcome == "proved"


def test_where_places_see_one_another_the_report_says_at_which_sizes_it_ran():
    _, report = surgeon.edit(model("g (float[2, 3] x) => (float[2, 3] y) { y = Softmax <axis = 1> (x) }"), Free(1, "n"))
    assert report.outcome == "unproved"
    assert report.check.reason == (
        "At n=6 and 4 the edited model runs, but the original accepts only n=3, so there is nothing to compare with."
    )


def test_a_wrong_reading_of_a_batch_is_seen_when_it_runs(monkeypatch):
    """A model is not written where samples are not what the original makes of each."""
    text = "g (float[1, 4] x) => (float[1, 4] y) <int64[2] s = {1, 4}> { a = Reshape (x, s)  y = Mul (a, a) }"
    free = choose_solution.make_size_dynamic

    def wrong(draft, *rest):
        found = free(draft, *rest)
        draft.graph.node[0].op_type = "CumSum"
        draft.graph.node[0].input[1] = "axis"
        draft.graph.initializer.append(numpy_helper.from_array(np.array(0, np.int64), "axis"))
        return found

    monkeypatch.setattr("surgeon.edits.dynamic_dims.make_dynamic.make_size_dynamic", wrong)
    with pytest.raises(CheckFailed, match="With a dynamic dim batch, 'y'"):
        surgeon.edit(model(text), Free(0, "batch"))


def test_edits_before_and_behind_are_held_each_by_itself():
    edits = [Rename("x", "pixels"), Free(0, "batch"), Rename("y", "out"), Dim("batch", 4)]
    made, report = surgeon.edit(model(HEADS), edits)
    assert report.outcome == "proved"
    assert shape(made.graph.input[0]) == [4, 7, 32]
    assert answer(made, numbers(4, 7, 32))[0].shape == (4, 7, 32)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Free(5, "n"), "No input has a fixed size on axis 5"),
        (Free(0, "n", "z"), "no input 'z'"),
        (Free(0, "2*n"), "Invalid dimension name"),
        (Free(0, "k"), "is already called 'k'"),
        (Free(1, "n"), "Axis 1 has size 4 in 'x', but 5 in 'w'. Choose an input, for example x[1]=n"),
        (Dim("x[0]", 3), "Make it dynamic first"),
        (Dim("y", "n"), "Invalid size"),
    ],
)
def test_bad_input_is_refused(edit, why):
    text = "g (float[1, 4] x, float[k, 5] w) => (float[1, 4] y) { y = Relu (x) }"
    with pytest.raises(UsageError) as refusal:
        surgeon.edit(model(text), edit)
    assert why in str(refusal.value)


def test_a_dry_run_proves_nothing_of_other_nodes():
    _, report = surgeon.edit(model(HEADS), Free(0, "batch"), dry_run=True)
    assert report.outcome == "unchecked"
    _, report = surgeon.edit(model(HEADS), Rename("x", "pixels"), dry_run=True)
    assert report.outcome == "proved"


def test_what_is_free_already_is_left():
    made, report = surgeon.edit(model("g (float[n, 4] x) => (float[n, 4] y) { y = Relu (x) }"), Free(0, "n"))
    assert report.outcome == "unchanged"
    assert shape(made.graph.input[0]) == ["n", 4]


def test_the_command_line(tmp_path):
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model(HEADS), source)
    done = run("edit", source, out, "--free", "0=batch")
    assert done.exit_code == 0
    assert "axis 0 of 'x' is dynamic, as 'batch' (it was 1)" in done.output
    assert "at batch=2 and 7" in done.output
    again = run("edit", source, out, "--dim", "x[0]=batch")
    assert again.exit_code == 0
    assert shape(onnx.load(out).graph.input[0]) == ["batch", 7, 32]
    assert run("edit", source, tmp_path / "no.onnx", "--free", "n=0").exit_code == 2
    assert not (tmp_path / "no.onnx").exists()


ODD = {"test_flexattention_gqa_expanded_ver26", "test_loop11"}
"""Cases in which a free size means something else than a fixed one, which shows when they run."""


def chosen_cases():
    every = onnx_cases()
    return sampling.chosen(lambda: every[::60], lambda: every)


def test_no_case_of_onnx_is_taken_for_what_it_is_not():
    """Any axis of any input of any operator is freed, or refused in a sentence; what is written runs as it says."""
    wrong = []
    for case in chosen_cases():
        for entry in case.model.graph.input:
            for axis, dim in enumerate(entry.type.tensor_type.shape.dim[:2]):
                if dim.dim_value > 0 and case.name not in ODD:
                    try:
                        surgeon.edit(case.model, Free(axis, "freed", entry.name))
                    except CheckFailed as error:
                        wrong += [] if "runs only with" in str(error) else [(case.name, entry.name, axis, str(error))]
                    except SurgeonError as error:
                        wrong += [] if str(error).endswith(".") else [(case.name, str(error))]
    assert not wrong


def read(given, target, **free):
    """Readings as text; the size that is free is given by name."""
    shape = tuple(parse_size(str(size)) for size in given)
    found = candidate_shapes(shape, [parse_size(str(size)) for size in target], False, free)
    return [[str(size) for size in reading] for reading in found]


@pytest.mark.parametrize(
    ("given", "target", "old", "wanted"),
    [
        (["n", 7, 32], [1, 7, 4, 8], 1, ["n", "7", "4", "8"]),
        (["n", 7, 32], [1, -1, 32], 1, ["n", "7", "32"]),
        (["n", 7, 32], [-1, 32], 1, ["7*n", "32"]),
        (["n", 7, 32], [0, -1], 1, ["n", "224"]),
        ([7, "n", 32], [7, 4, 8], 1, ["7", "4*n", "8"]),
        (["4*n", 7, 8], [1, 4, 7, 8], 1, ["n", "4", "7", "8"]),
        (["n", 64], [7, 8, 8], 7, ["n", "8", "8"]),
        ([7, "n", 8], [7, 56], 7, ["7", "8*n"]),
        ([2, "n", 3], [-1, 3], 7, ["2*n", "3"]),
    ],
)
def test_how_a_reshape_reads(given, target, old, wanted):
    assert read(given, target, n=old)[0] == wanted


def test_where_a_reshape_has_no_reading():
    assert read(["n", 4], [2, 3, 4], n=6) == []


def test_the_shortest_target():
    def made(reading, given):
        sizes = [tuple(parse_size(str(size)) for size in one) for one in (reading, given)]
        return [str(size) for size in target_for(*sizes, False, {"n": 1, "m": 1})]

    assert made(["n", 7, 4, 8], ["n", 7, 32]) == ["0", "7", "4", "8"]
    assert made(["4*n", 7, 8], ["n", 4, 7, 8]) == ["-1", "7", "8"]
    assert made(["4*n", "m", 8], ["n", 4, "8*m"]) == ["-1", "m", "8"]


def test_what_is_stored_beside_is_an_input_where_all_that_is_stored_has_to_be():
    """Below IR version 4; the shape that follows is stored, and no user has to give it."""
    held = [numpy_helper.from_array(np.ones((3, 4), np.float32), "w"), numpy_helper.from_array(np.array([1, 12]), "s")]
    given = [("x", 1, [1, 3, 3]), ("w", 1, [3, 4]), ("s", 7, [2])]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Reshape", ["a", "s"], ["y"])]
    inputs = [helper.make_tensor_value_info(*one) for one in given]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, [1, 12])], held)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=3)
    made, report = surgeon.edit(source, Free.parse("0=batch"))
    assert report.outcome == "proved"
    onnx.checker.check_model(made)
    assert shape(made.graph.input[0]) == ["batch", 3, 3]


@pytest.mark.parametrize("read", ["a", "b"])
def test_what_depends_on_any_of_the_dynamic_inputs_is_stated_anew(read):
    """How many elements are not 0 is known of neither."""
    other = {"a": "b", "b": "a"}[read]
    nodes = f"{{ y = NonZero({read}) z = Neg({other}) }}"
    fixed = model(f"g (float[1, 4] a, float[1, 4] b) => (int64[2, 4] y, float[1, 4] z) {nodes}")
    made, _ = surgeon.edit(fixed, Free(0, "batch"), check="none")
    stated = [entry.type.tensor_type.shape.dim for entry in made.graph.output]
    assert [[dim.dim_param or dim.dim_value for dim in one] for one in stated] == [[2, 0], ["batch", 4]]


def test_a_free_dimension_has_a_name():
    with pytest.raises(UsageError, match="Invalid dimension name ''"):
        surgeon.edit(model("g (float[1, 4] a) => (float[1, 4] z) { z = Neg(a) }"), Free(0, ""))
