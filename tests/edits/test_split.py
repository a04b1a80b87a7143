"""A model in parts that follow each other: each is valid by itself, and one after the other they are the whole."""

import os

import numpy as np
import onnx
import onnx.parser
import onnx_graphsurgeon as gs
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

import surgeon
from surgeon.file import save as save_module
from tests import sampling
from tests.command_line import run
from tests.edits.samples import random_models, sample
from tests.edits.test_cut_data import WIDTH, chain, external, weights

few = settings(max_examples=sampling.examples(20), deadline=None)


def split(model, **rest):
    parts, report = surgeon.split(model, **rest)
    for part in parts:
        onnx.checker.check_model(part, full_check=True)
    return parts, report


def run_chain(parts, feeds):
    """What the parts give one after the other, told without surgeon."""
    held = dict(feeds)
    for part in parts:
        session = ort.InferenceSession(part.SerializeToString())
        names = [value.name for value in session.get_inputs()]
        outputs = [value.name for value in session.get_outputs()]
        held.update(zip(outputs, session.run(None, {name: held[name] for name in names}), strict=True))
    return held


def ends(report):
    return [(part.inputs, part.outputs) for part in report.parts]


def test_parts_at_tensors_take_what_earlier_ones_give():
    parts, report = split(sample(), at=["e", "b"])
    assert report.outcome == "proved"
    assert ends(report) == [
        (("x",), ("a", "b")),
        (("b", "c", "z", "a"), ("p", "e")),
        (("e", "p"), ("y", "left")),
    ]
    assert [[node.op_type for node in part.graph.node] for part in parts] == [
        ["Add", "half"],
        ["Split", "Concat", "If"],
        ["Constant", "Mul", "Relu", "Neg"],
    ]
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=(3, 4)).astype(np.float32) for name in "xz"} | {"c": np.array(False)}
    whole = ort.InferenceSession(sample().SerializeToString()).run(None, feeds)
    held = run_chain(parts, feeds)
    np.testing.assert_array_equal(held["y"], whole[0])
    np.testing.assert_array_equal(held["left"], whole[1])


def test_parts_have_about_as_many_bytes_of_weights(tmp_path):
    onnx.save(chain(8), tmp_path / "m.onnx")
    paths, report = surgeon.split(tmp_path / "m.onnx", tmp_path / "parts", parts=4)
    assert report.outcome == "proved"
    assert [path.name for path in paths] == [f"m-{number}.onnx" for number in range(1, 5)]
    assert [sorted(weights(path)) for path in paths] == [[f"w{2 * i}", f"w{2 * i + 1}"] for i in range(4)]
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "parts"]


def test_a_cut_is_where_the_fewest_tensors_pass():
    """Between the two halves three tensors pass everywhere but at one place."""
    text = """<ir_version: 9, opset_import: ["" : 18]> g (float[4] x) => (float[4] y) {
        a = Relu (x) b = Tanh (x) c = Neg (x) d = Sum (a, b, c)
        e = Relu (d) f = Tanh (d) h = Neg (d) i = Abs (d) y = Sum (e, f, h, i) }"""
    _, report = split(onnx.parser.parse_model(text), parts=2)
    assert ends(report) == [(("x",), ("d",)), (("d",), ("y",))]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"at": ["lift"]}, "did you mean 'left'"),
        ({"at": ["w"]}, "'w' does not split the model: it is not computed"),
        ({"at": ["x"]}, "'x' does not split the model"),
        ({"at": ["k"]}, "'k' does not split the model"),
        ({"at": ["p", "q"]}, "does not split the model: no node is between"),
        ({"at": ["a", "a"]}, "'a' is given twice"),
        ({"parts": 1}, "cannot be split into 1 parts"),
        ({"parts": 100}, "cannot be split into 100 parts. Give 2 to 8"),
        ({}, "Give either the tensors"),
        ({"at": ["a"], "parts": 2}, "or the number of parts"),
        ({"at": ["a"], "check": "sites"}, "Unknown check 'sites'"),
    ],
    ids=str,
)
def test_what_parts_nothing_is_refused(arguments, words):
    with pytest.raises(surgeon.UsageError, match=words):
        split(sample(), **arguments)


def test_an_output_with_nothing_behind_it_parts_nothing():
    model = sample()
    del model.graph.output[1:], model.graph.node[-1:]
    with pytest.raises(surgeon.UsageError, match="'y' does not split the model: no node is after it"):
        split(model, at=["y"])


def test_data_files_are_parted_too(tmp_path):
    path = external(tmp_path / "m.onnx", chain())
    paths, report = surgeon.split(path, tmp_path / "parts", at=["t1", "t3"])
    assert report.outcome == "proved"
    assert [set(weights(path)) for path in paths] == [{"w0"}, {"w1", "w2"}, {"w3"}]
    sizes = [os.path.getsize(f"{path}.data") for path in paths]
    assert sizes == [size * WIDTH * WIDTH * 4 for size in (1, 2, 1)]
    held = {item.name: numpy_helper.to_array(item) for item in chain().graph.initializer}
    for path in paths:
        for name, array in weights(path).items():
            np.testing.assert_array_equal(array, held[name])


def test_a_folder_that_holds_files_is_left_alone(tmp_path):
    onnx.save(sample(), tmp_path / "m.onnx")
    folder = tmp_path / "parts"
    folder.mkdir()
    surgeon.split(tmp_path / "m.onnx", folder, at=["b"])
    (folder / "other").write_text("mine")
    with pytest.raises(surgeon.ModelFileError, match="is not empty"):
        surgeon.split(tmp_path / "m.onnx", folder, at=["e"])
    _, report = surgeon.split(tmp_path / "m.onnx", folder, at=["b", "e"], force=True)
    assert report.written
    assert sorted(os.listdir(folder)) == ["m-1.onnx", "m-2.onnx", "m-3.onnx", "other"]
    with pytest.raises(surgeon.ModelFileError, match="is a file"):
        surgeon.split(tmp_path / "m.onnx", tmp_path / "m.onnx", at=["b"])
    with pytest.raises(surgeon.ModelFileError, match="does not exist"):
        surgeon.split(tmp_path / "m.onnx", tmp_path / "no" / "parts", at=["b"])


def test_an_empty_folder_that_has_to_stay_takes_the_parts(tmp_path, monkeypatch):
    """As one that a disk is mounted at, which nothing can take the place of."""
    onnx.save(sample(), tmp_path / "m.onnx")
    folder = tmp_path / "parts"
    folder.mkdir()

    def busy(self):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr("pathlib.Path.rmdir", busy)
    surgeon.split(tmp_path / "m.onnx", folder, at=["b"])
    assert sorted(os.listdir(folder)) == ["m-1.onnx", "m-2.onnx"]
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "parts"]


def test_what_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    onnx.save(sample(), tmp_path / "m.onnx")
    real, calls = save_module._Writer.write, []

    def write(self, pieces):
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(self, pieces)

    monkeypatch.setattr(save_module._Writer, "write", write)
    with pytest.raises(surgeon.ModelFileError, match="disk is full"):
        surgeon.split(tmp_path / "m.onnx", tmp_path / "parts", at=["b", "e"])
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_parts_that_differ_are_not_written(tmp_path, monkeypatch):
    onnx.save(sample(), tmp_path / "m.onnx")
    from surgeon.edits.merge_split import split as split_module

    def spoiled(draft, *rest):
        reported = real(draft, *rest)
        for node in draft.graph.node:
            node.op_type = "Tanh" if node.op_type == "Relu" else node.op_type
        return reported

    real = split_module.extract
    monkeypatch.setattr(split_module, "extract", spoiled)
    with pytest.raises(surgeon.CheckFailed, match="The parts differ from the whole"):
        surgeon.split(tmp_path / "m.onnx", tmp_path / "parts", at=["b", "e"])
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_graphs_of_graphsurgeon_come_back_as_graphs():
    """Parted, made one again, held against the whole, and captured from; the graph that was given stays as it is."""
    text = "chain (float[n, 4] x) => (float[n, 4] y) { a = Abs(x) t = Tanh(a) b = Exp(t) c = Neg(b) y = Sigmoid(c) }"
    whole = gs.import_onnx(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}'))
    names = [node.name for node in whole.nodes]
    parts, report = surgeon.split(whole, at=["b"])
    again, merged = surgeon.merge(*parts)
    assert [type(item) for item in (*parts, again)] == [gs.Graph] * 3
    assert report.outcome == merged.outcome == surgeon.compare(whole, again).outcome.value == "proved"
    assert "Captured from a model" in surgeon.capture(whole, ["a"], ["b"], "part").text
    assert [node.name for node in whole.nodes] == names


def test_an_output_that_is_stored_is_one_of_the_last_part():
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]> g (float[n, 4] x) =>
        (float[n, 4] y, float[4] k) <float[4] k = {1.0, 2.0, 3.0, 4.0}> { e = Exp (x)  y = Neg (e) }""")
    parts, report = split(model, at=["e"])
    assert report.outcome == "proved"
    assert ends(report) == [(("x",), ("e",)), (("e",), ("y", "k"))]
    feeds = {"x": np.ones((2, 4), np.float32)}
    np.testing.assert_array_equal(run_chain(parts, feeds)["k"], np.arange(1, 5, dtype=np.float32))


SEQUENCES = """<ir_version: 9, opset_import: ["" : 18{}]> g (float[n, 4] x) => (float[n, 4] y) <int64 z = {{0}}> {{
    t = {} (x)  s = SplitToSequence <axis = 1> (t)  e = SequenceAt (s, z)
    q = ConcatFromSequence <axis = 1> (s)  y = Add (q, e) }}"""


def test_sequences_pass_a_cut():
    """Of what they hold onnx tells."""
    parts, report = split(onnx.parser.parse_model(SEQUENCES.format("", "Neg")), at=["e"])
    assert report.outcome == "proved"
    assert ends(report) == [(("x",), ("s", "e")), (("s", "e"), ("y",))]
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
    np.testing.assert_array_equal(run_chain(parts, feeds)["y"], -feeds["x"] - feeds["x"][:, :1])


def test_a_sequence_of_which_nothing_is_known_is_reported():
    """It has no dtype that could be stated."""
    model = onnx.parser.parse_model(SEQUENCES.format(', "acme" : 1', "acme.Foo"))
    with pytest.raises(surgeon.UsageError, match="'s' is a sequence or optional of unknown type"):
        surgeon.split(model, at=["e"], check="none")
    with pytest.raises(surgeon.UsageError, match="'s' is a sequence or an optional, so it has no dtype and no shape"):
        surgeon.edit(model, surgeon.edits.StateTensor("s", "float32", ("n", 4)), check="none")


def test_random_numbers_are_drawn_once():
    text = """<ir_version: 9, opset_import: ["" : 18]> g (float[4] x) => (float[4] y) {
        r = RandomNormal <shape = [4]> () a = Add (x, r) b = Relu (a) y = Mul (b, r) }"""
    _, report = split(onnx.parser.parse_model(text), at=["b"], check="auto")
    assert ends(report) == [(("x",), ("r", "b")), (("b", "r"), ("y",))]


def test_the_command_reports_the_parts(tmp_path):
    onnx.save(sample(), tmp_path / "m.onnx")
    done = run("split", tmp_path / "m.onnx", tmp_path / "parts", "--at", "b")
    assert done.exit_code == 0
    assert "m-1.onnx: 2 nodes, x → a, b" in done.stdout
    assert "PROVED" in done.stdout
    done = run("split", tmp_path / "m.onnx", tmp_path / "parts")
    assert done.exit_code == 2


@few
@given(random_models(), st.data())
def test_any_cut_of_any_model_gives_parts_that_are_the_whole(model, data):
    made = [name for node in model.graph.node for name in node.output]
    if data.draw(st.booleans()):
        asked = {"at": data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))}
    else:
        asked = {"parts": data.draw(st.integers(2, 4))}
    try:
        parts, report = split(model, **asked)
    except surgeon.UsageError:
        return  # told apart above
    assert report.outcome == "proved"
    assert len(parts) == asked.get("parts", len(asked.get("at", ())) + 1)
    outputs = {value.name for value in model.graph.output}
    assert outputs <= {name for part in report.parts for name in part.outputs}
    given = {value.name for value in model.graph.input}
    for part in report.parts:
        assert given.issuperset(part.inputs)
        assert not given.intersection(part.outputs)
        given.update(part.outputs)


def test_a_model_that_breaks_the_rules_is_refused_as_such():
    """Before a word on tensors that nobody named."""
    broken = sample()
    broken.graph.node[0].input[0] = "nowhere"
    with pytest.raises(surgeon.GraphError, match="reads 'nowhere', which no node produces"):
        surgeon.split(broken, at=["a"])


def test_a_damaged_weight_is_named():
    damaged = sample()
    damaged.graph.initializer[0].dims[0] = 9
    with pytest.raises(surgeon.ModelFileError, match=r"Tensor 'w' of shape \[9\] needs 9 elements"):
        surgeon.split(damaged, at=["a"])


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ({"at": "gelu"}, "a list of tensor names, not 'gelu'"),
        ({"at": [1]}, "a list of tensor names"),
        ({"at": 5}, "a list of tensor names"),
        ({"parts": "2"}, "must be an integer, not '2'"),
        ({"parts": 2.0}, "must be an integer"),
    ],
    ids=str,
)
def test_cuts_of_another_kind_are_reported(rest, words):
    with pytest.raises(surgeon.UsageError, match=words):
        surgeon.split(sample(), **rest)
