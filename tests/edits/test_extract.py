"""A part of a model by itself: the smallest graph, proved against the inner tensors, nothing else changed."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import surgeon
from surgeon.edits import AddOutput, Extract, OrderInputs, RaiseOpset, Rename
from surgeon.testing import parse
from tests import sampling
from tests.edits.samples import floats, random_models, sample

few = settings(max_examples=sampling.examples(25), deadline=None)


def extract(model, froms, tos, check="model"):
    made, report = surgeon.edit(model, Extract(tuple(froms), tuple(tos)), check=check)
    onnx.checker.check_model(made, full_check=True)
    return made, report


def ops(model):
    return [node.op_type for node in model.graph.node]


def names(values):
    return [value.name for value in values]


@pytest.mark.parametrize(
    ("froms", "tos", "left"),
    [
        (["a"], ["b"], ["half"]),
        (["d", "a", "z", "c"], ["f"], ["If", "Constant", "Mul"]),
        (["p"], ["left"], ["Neg"]),
        (["b", "p"], ["d"], ["Split", "Concat"]),
        ([], ["d"], ["Add", "half", "Split", "Concat"]),
        (["e"], [], ["Constant", "Mul", "Relu"]),
        (["x", "c", "z"], ["y", "left", "d"], None),
    ],
    ids=str,
)
def test_a_part_is_the_smallest_graph_and_is_proved(froms, tos, left):
    made, report = extract(sample(), froms, tos)
    assert report.outcome == "proved"
    assert report.by_structure
    assert report.check is not None
    assert ops(made) == (ops(sample()) if left is None else left)
    assert names(made.graph.input) == (froms or ["x"])
    assert names(made.graph.output) == (tos or ["y"])
    assert all(value.type.tensor_type.elem_type for value in made.graph.input)
    assert made.metadata_props[0].value == "me"


def test_captures_decide_what_weights_and_functions_stay():
    made, _ = extract(sample(), ["d", "a", "z", "c"], ["f"])
    assert names(made.graph.initializer) == ["v"]
    assert not made.functions
    made, _ = extract(sample(), ["x"], ["b"])
    assert names(made.graph.initializer) == ["w"]
    assert [function.name for function in made.functions] == ["half", "times"]


def test_inputs_state_the_sizes_that_are_known_of_inner_tensors():
    made, _ = extract(sample(), ["p"], ["left"])
    assert [dim.dim_param or dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim] == ["N", 2]


@pytest.mark.parametrize(
    ("froms", "tos", "words"),
    [
        (["a"], ["y"], "the inputs 'z', 'c' are also needed"),
        (["a", "c"], ["y"], "the input 'z' is also needed"),
        (["a"], ["a"], "'a' would be both an input and an output"),
        ([], ["x"], "'x' would be both an input and an output"),
        (["w"], ["y"], "'w' is an initializer"),
        (["d", "a", "z", "c", "x"], ["y"], "'y' does not depend on 'x'. Remove it"),
        (["lift"], ["y"], "did you mean 'left'"),
        (["t"], ["y"], "'t' is a tensor in a subgraph"),
        (["y"], ["a"], "the input 'x' is also needed"),
        (["y"], [], "No output of the model depends on 'y'"),
    ],
    ids=str,
)
def test_a_cut_that_is_none_is_refused(froms, tos, words):
    with pytest.raises(surgeon.UsageError, match=words):
        extract(sample(), froms, tos)


SKIPS = """
<ir_version: 9, opset_import: ["" : 18]> g (float[N, 4] x, float[N, 4] mask) => (float[N, 4] y, float[N, 4] other)
<float[4] w = {1.0, 2.0, -1.0, 0.5}> {
    bias = Neg (mask)  scaled = Mul (bias, w)
    a = Add (x, w)  b = Relu (a)  c = Add (b, scaled)  d = Sigmoid (c)
    e = Add (d, a)  f = Add (e, scaled)  y = Mul (f, mask)  other = Neg (x)
}
"""


@pytest.mark.parametrize(
    ("froms", "tos", "missing"),
    [
        (["b"], ["d"], "the tensor 'scaled' is also needed"),
        (["b"], ["e"], "the tensors 'scaled', 'a' are also needed"),
        (["d"], ["f"], "the tensors 'a', 'scaled' are also needed"),
        (["a"], ["y"], "the input 'mask' and the tensor 'scaled' are also needed"),
        (["bias"], ["d"], "the tensor 'b' is also needed"),
        (["scaled"], ["c", "y"], "the input 'mask' and the tensors 'b', 'a' are also needed"),
        (["d"], ["y"], "the input 'mask' and the tensors 'a', 'scaled' are also needed"),
        (["d"], ["other"], "the input 'x' is also needed"),  # which the cut does not reach
    ],
    ids=str,
)
def test_a_cut_that_lacks_tensors_names_those_between(froms, tos, missing):
    """Not the inputs far before them; the cut that the sentence ends in is one that holds."""
    model = onnx.parser.parse_model(SKIPS)
    with pytest.raises(surgeon.UsageError) as caught:
        extract(model, froms, tos)
    assert missing in str(caught.value)
    cut = str(caught.value).rpartition("Start from ")[2].split(",")
    assert cut[: len(froms)] == froms
    if tos != ["other"]:
        made, report = extract(model, cut, tos)
        assert report.outcome == "proved"
        assert names(made.graph.input) == cut


def test_what_is_asked_for_already_changes_nothing(tmp_path):
    model, path = sample(), tmp_path / "m.onnx"
    del model.graph.node[-1:], model.graph.output[1:]
    onnx.save(model, path)
    _, report = surgeon.edit(path, Extract(("x", "z", "c"), ("y",)), output=tmp_path / "o.onnx")
    assert report.outcome == "unchanged"
    assert (tmp_path / "o.onnx").read_bytes() == path.read_bytes()


def test_weights_that_old_models_have_as_inputs_stay_there():
    model = sample()
    model.ir_version = 3
    del model.functions[:], model.graph.node[1:]
    model.graph.node.add(op_type="Relu", input=["a"], output=["y"])
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    model.graph.output.pop()
    del model.graph.input[1:3], model.graph.initializer[1:]
    made, report = extract(model, ["x"], ["a"])
    assert sorted(names(made.graph.input)) == ["w", "x"]
    assert report.outcome == "proved"


def test_a_sequence_is_an_input_as_the_file_states_it_or_as_onnx_infers():
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    model = helper.make_model(helper.make_graph(nodes, "g", floats("x"), floats("y")), ir_version=9)
    made, report = extract(model, ["s"], ["y"])
    assert made.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type == TensorProto.FLOAT
    assert (report.outcome, "input 's' is a sequence" in report.check.reason) == ("proved", True)
    assert extract(model, ["x"], ["s"])[1].check.outcome.value == "proved"
    model.graph.value_info.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    made, _ = extract(model, ["s"], ["y"], check="none")
    assert made.graph.input[0].type.WhichOneof("value") == "sequence_type"


def test_edits_before_a_cut_are_compared_with_the_original():
    edits = [Rename("a", "first"), AddOutput("d"), Extract(("first",), ("p", "d")), Rename("d", "last")]
    made, report = surgeon.edit(sample(), edits, check="model")
    assert (names(made.graph.input), names(made.graph.output)) == (["first"], ["p", "last"])
    assert report.outcome == "proved"


@few
@given(random_models(), st.data())
def test_any_cut_of_any_model_equals_its_inner_tensors_or_is_refused(model, data):
    made = [name for node in model.graph.node for name in node.output]
    known = [*names(model.graph.input), *made]
    froms = data.draw(st.lists(st.sampled_from(known), max_size=3, unique=True))
    tos = data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=2, unique=True))
    try:
        part, report = extract(model, froms, tos)
    except surgeon.UsageError:
        return  # told apart above
    assert report.outcome in ("proved", "unchanged")
    assert names(part.graph.output) == tos
    again, report = extract(part, names(part.graph.input), tos, check="none")
    assert report.outcome == "unchanged"
    assert again == part


def test_the_part_runs_by_itself_on_what_the_whole_makes():
    """Told without surgeon's own check."""
    import onnxruntime as ort

    whole = sample()
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=(3, 4)).astype(np.float32) for name in "xz"} | {"c": np.array(True)}
    part, _ = extract(whole, ["d", "a", "z", "c"], ["f"], check="none")
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("d", "a", "f"))
    d, a, f = ort.InferenceSession(whole.SerializeToString()).run(["d", "a", "f"], feeds)
    found = ort.InferenceSession(part.SerializeToString()).run(None, {"d": d, "a": a, "z": feeds["z"], "c": feeds["c"]})
    np.testing.assert_array_equal(found[0], f)


def test_inputs_stay_in_their_order():
    """Those that a weight stands for too; where they are named, that is the order."""
    model = parse(
        "(float[n] x, float[n] w, float[n] v) => (float[n] y) <float[4] w = {1, 2, 3, 4}> "
        "{ a = Mul(x, w) y = Add(a, v) }"
    )
    made, _ = surgeon.edit(model, Extract((), ("y",)))
    assert names(made.graph.input) == ["x", "w", "v"]


def test_a_stored_tensor_is_no_end():
    model = parse("(float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Mul(x, w) }")
    with pytest.raises(surgeon.UsageError, match="'w' is an initializer. Choose a tensor that a node produces"):
        surgeon.edit(model, Extract((), ("w",)))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Extract("ab", "y"), "froms of Extract: expected a list of names, got 'ab'"),
        (RaiseOpset("21"), "version of RaiseOpset: expected an integer, got '21'"),
        (OrderInputs(5), "names of OrderInputs: expected a list of names, got 5"),
        (Extract(("x", "x"), ("y",)), "'x' is in froms twice"),
    ],
)
def test_what_is_of_another_kind_is_reported(edit, message):
    model = parse("(float[4] x) => (float[4] y) { y = Neg(x) }")
    with pytest.raises(surgeon.UsageError, match=message):
        surgeon.edit(model, edit)


def test_what_a_note_on_quantization_names_stays_with_it():
    """The scale that it names is read by no node."""
    model = parse("(float[4] x) => (float[4] y) <float sc = {0.5}, float other = {2}> { r = Neg(x) y = Relu(r) }")
    for name, scale in (("r", "sc"), ("y", "other")):
        note = model.graph.quantization_annotation.add(tensor_name=name)
        note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=scale)
    made, _ = surgeon.edit(model, Extract((), ("r",)))
    assert [note.tensor_name for note in made.graph.quantization_annotation] == ["r"]
    assert names(made.graph.initializer) == ["sc"]


def test_how_it_is_trained_is_left_out_and_that_is_reported():
    model = sample()
    model.training_info.add(algorithm=helper.make_graph([], "step", [], []))
    made, report = extract(model, ["a"], ["b"])
    assert not made.training_info
    assert report.edits[0].said[1:] == ("the training info is removed",)


@pytest.mark.parametrize("version", [3, 9])
def test_a_stored_input_that_the_part_does_not_need_is_not_asked_for(version):
    """The original runs without it too, where it shows inner tensors alone."""
    model = parse(
        "(float[n, 4] x, float[4] v = {1.0, 2.0, 3.0, 4.0}) => (float[n, 4] y) { a = Exp(x) b = Neg(a) y = Mul(b, v) }"
    )
    model.ir_version = version
    _, report = extract(model, [], ["b"])
    assert report.outcome == "proved"
    assert report.check.runs
    assert not report.check.reason


def test_the_function_does_what_the_edit_does(tmp_path):
    """One name or several, in memory and from file to file, with what `surgeon.edit` takes."""
    model, path = sample(), tmp_path / "m.onnx"
    made, report = surgeon.extract(model, "a", "b")
    assert made == extract(model, ["a"], ["b"])[0]
    assert (report.outcome, report.nodes) == ("proved", (9, 1))
    assert made == surgeon.extract(model, ["a"], tos=("b",), check="none")[0]
    assert names(surgeon.extract(model, tos="d")[0].graph.input) == ["x"]
    onnx.save(model, path)
    to, report = surgeon.extract(path, "e", output=tmp_path / "o.onnx", options=surgeon.CheckOptions(seed=3))
    assert (to, report.written, ops(onnx.load(to))) == (tmp_path / "o.onnx", True, ["Constant", "Mul", "Relu"])
    assert surgeon.extract(path, "e", dry_run=True)[1].written is False
    for cut, words in (((), "needs tensors to start from or to end at"), (("lift",), "did you mean 'left'")):
        with pytest.raises(surgeon.UsageError, match=words):
            surgeon.extract(model, cut)
