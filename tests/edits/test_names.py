"""Names, order, notes and dtypes of what a model takes and gives."""

from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import surgeon
from surgeon.edits import (
    AddOutput,
    DropOutput,
    Metadata,
    OrderInputs,
    OrderOutputs,
    RaiseOpset,
    Rename,
    Retype,
    StripDoc,
)
from surgeon.edits.installed_edits import all_edits
from surgeon.testing import parse
from tests import sampling
from tests.command_line import result_in, run
from tests.onnx_cases import onnx_cases

MODEL = Path(__file__).resolve().parents[2] / "notebooks" / "models" / "tiny_distilbert.onnx"


def value(name, dtype=TensorProto.FLOAT, shape=("n", 4)):
    return helper.make_tensor_value_info(name, dtype, shape)


@pytest.fixture
def branching():
    """A model whose If reads a tensor of the main graph in one body, with a weight and a quantization annotation."""
    then = helper.make_graph([helper.make_node("Mul", ["h", "w"], ["t"])], "then", [], [value("t")])
    other = helper.make_graph([helper.make_node("Neg", ["h"], ["e"])], "other", [], [value("e")])
    nodes = [
        helper.make_node("Add", ["x", "w"], ["h"], name="add", doc_string="where it is from"),
        helper.make_node("If", ["c"], ["y"], name="choose", then_branch=then, else_branch=other),
        helper.make_node("Relu", ["h"], ["z"], name="relu"),
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
    graph = helper.make_graph(
        nodes, "g", [value("x"), value("c", TensorProto.BOOL, ())], [value("y"), value("z")], [weight]
    )
    graph.value_info.append(value("h"))
    note = graph.quantization_annotation.add(tensor_name="h")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], doc_string="a model")
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def answer(model, feeds):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([item.name for item in session.get_outputs()], session.run(None, feeds), strict=True))


FEEDS = {"x": np.arange(8, dtype=np.float32).reshape(2, 4) - 3}


@pytest.mark.parametrize("choice", [True, False])
@pytest.mark.parametrize("name", ["x", "c", "h", "w", "y", "z"])
def test_a_renamed_tensor_is_read_everywhere(branching, name, choice):
    made, report = surgeon.edit(branching, Rename(name, "other"), check="model")
    feeds = {**FEEDS, "c": np.array(choice)}
    before = answer(branching, feeds)
    after = answer(made, {"other" if key == name else key: array for key, array in feeds.items()})
    assert report.outcome == "proved"
    assert report.by_structure
    assert list(after) == ["other" if key == name else key for key in before]
    for one, two in zip(before.values(), after.values(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert name not in {held for node in made.graph.node for held in (*node.input, *node.output)}
    back, _ = surgeon.edit(made, Rename("other", name))
    assert back.SerializeToString() == branching.SerializeToString()


def test_what_is_not_renamed_stays_byte_for_byte(tmp_path):
    out = tmp_path / "out.onnx"
    _, report = surgeon.edit(MODEL, Rename("input_ids", "tokens"), output=out)
    kept, new = report.bytes
    assert kept > 0.98 * MODEL.stat().st_size
    assert new < 2000
    _, back = surgeon.edit(out, Rename("tokens", "input_ids"), output=out)
    assert back.written
    assert out.read_bytes() == MODEL.read_bytes()


def test_nothing_to_do_gives_the_same_bytes(tmp_path):
    out = tmp_path / "out.onnx"
    _, report = surgeon.edit(MODEL, [Rename("input_ids", "input_ids"), StripDoc()], output=out)
    assert report.outcome == "unchanged"
    assert report.written
    assert out.read_bytes() == MODEL.read_bytes()


def test_outputs_come_and_go_with_what_they_need(branching):
    made, report = surgeon.edit(branching, [AddOutput("h"), DropOutput("y")], check="model")
    assert [item.name for item in made.graph.output] == ["z", "h"]
    assert [node.op_type for node in made.graph.node] == ["Add", "Relu"]
    assert report.outcome == "proved"
    assert report.by_structure
    assert "h" not in [item.name for item in made.graph.value_info]
    only, _ = surgeon.edit(made, DropOutput("h"), check="model")
    assert [item.name for item in only.graph.output] == ["z"]


@pytest.mark.parametrize(
    ("edit", "order"),
    [
        (OrderOutputs(("y",)), "ywy"),
        (OrderOutputs(("w",)), "wyy"),
        (OrderOutputs(("w", "y")), "wyy"),
        (OrderOutputs(("y", "y")), "yyw"),
    ],
)
def test_an_output_may_be_listed_twice(edit, order):
    """Each entry stays one."""
    model = parse("""<ir_version: 8, opset_import: ["" : 18]> g (float[n, 4] x) =>
        (float[n, 4] y, float[n, 4] w, float[n, 4] y) { y = Exp (x)  w = Neg (x) }""")
    made, report = surgeon.edit(model, edit, check="model")
    assert report.outcome in ("proved", "unchanged")
    assert "".join(value.name for value in made.graph.output) == order


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Retype("y", "float16", cast=True), "lists the output 'y' more than once"),
        (DropOutput("y"), "'y' is the only output"),
    ],
)
def test_what_an_output_listed_twice_cannot_be(edit, message):
    model = parse("""<ir_version: 8, opset_import: ["" : 18]> g (float[n, 4] x) =>
        (float[n, 4] y, float[n, 4] y) { y = Exp (x) }""")
    with pytest.raises(surgeon.UsageError, match=message):
        surgeon.edit(model, edit)


def test_nothing_is_named_more_often_than_it_is_listed(branching):
    for edit in (OrderOutputs(("z", "z")), OrderInputs(("c", "c"))):
        with pytest.raises(surgeon.UsageError, match="is given more often than the model lists it"):
            surgeon.edit(branching, edit)


def test_order_is_of_lists_alone(branching):
    made, report = surgeon.edit(branching, [OrderInputs(("c",)), OrderOutputs(("z", "y"))], check="model")
    assert [item.name for item in made.graph.input] == ["c", "x"]
    assert [item.name for item in made.graph.output] == ["z", "y"]
    assert report.outcome == "proved"
    assert list(made.graph.node) == list(branching.graph.node)


def test_notes_and_docs(branching):
    made, report = surgeon.edit(branching, [Metadata("author", "me"), StripDoc()])
    assert {entry.key: entry.value for entry in made.metadata_props} == {"author": "me"}
    assert not made.doc_string
    assert not any(node.doc_string for node in made.graph.node)
    assert report.edits[1].said == ("2 doc strings are removed",)
    again, _ = surgeon.edit(made, [Metadata("author", "")])
    assert not again.metadata_props


def test_a_dtype_that_readers_take_too_needs_no_cast():
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"])]
    table = helper.make_tensor("table", TensorProto.FLOAT, [5, 2], [float(number) for number in range(10)])
    graph = helper.make_graph(
        nodes, "g", [value("ids", TensorProto.INT64, ("n",))], [value("rows", shape=("n", 2))], [table]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made, report = surgeon.edit(model, Retype("ids", "int32"))
    assert report.outcome == "proved"
    assert [node.op_type for node in made.graph.node] == ["Gather"]
    with pytest.raises(surgeon.UsageError, match="Gather at 'rows' reads 'ids' as int64, so a Cast is needed"):
        surgeon.edit(model, Retype("ids", "float16"))
    made, report = surgeon.edit(model, Retype("ids", "float16", cast=True))
    assert report.outcome == "proved"
    assert [node.op_type for node in made.graph.node] == ["Cast", "Gather"]


def test_booleans_of_floats_are_not_those_of_integers():
    body = "{ seen = Cast<to = 9>(mask) kept = Cast<to = 1>(mask) }"
    model = parse(f"(int64[n] mask) => (bool[n] seen, float[n] kept) {body}")
    with pytest.raises(surgeon.UsageError, match="Cast at 'seen' reads 'mask' as int64, so a Cast is needed"):
        surgeon.edit(model, Retype("mask", "float32"))
    _, report = surgeon.edit(model, Retype("mask", "int32"))
    assert report.outcome == "proved"


def test_a_wrong_edit_fails_its_check(branching):
    class Negate(surgeon.edits.Edit):
        flag, metavar, spelling = "negate", "", ""

        @classmethod
        def parse(cls, text):
            return cls()

        def to_dict(self):
            return {}

        def apply(self, draft):
            draft.graph.node[2].op_type = "Neg"
            return ("Relu is Neg",)

    with pytest.raises(surgeon.CheckFailed, match="Output 'z'") as caught:
        surgeon.edit(branching, Negate())
    assert caught.value.report.outcome == "failed"
    assert "Neg at 'relu' is not a node of the original" in caught.value.report.other


def test_a_node_without_outputs_is_reported_as_any_other(branching):
    branching.graph.node.add(op_type="Log", domain="custom", input=["h"])
    branching.opset_import.add(domain="custom", version=1)
    made, report = surgeon.edit(branching, Rename("h", "inner"))
    assert report.outcome == "proved"
    assert made.graph.node[3].input == ["inner"]


def test_a_graph_comes_back_as_a_graph(branching):
    made, report = surgeon.edit(gs.import_onnx(branching), Rename("x", "pixels"))
    assert isinstance(made, gs.Graph)
    assert made.inputs[0].name == "pixels"
    assert report.outcome == "proved"


def test_cases_of_every_op_are_renamed_there_and_back():
    """onnx's own, a sample of them by default: nodes are the original's own, and the bytes the same in the end."""
    every = [case.model for case in onnx_cases() if case.model.graph.input]
    for model in sampling.chosen(lambda: every[::12], lambda: every):
        given, taken = model.graph.input[0].name, model.graph.output[0].name
        made, report = surgeon.edit(model, [Rename(given, "a new name"), Rename(taken, "größe"), Metadata("k", "v")])
        assert report.outcome == "proved", report.other
        back, _ = surgeon.edit(made, [Rename("a new name", given), Rename("größe", taken), Metadata("k", "")])
        assert back.SerializeToString() == model.SerializeToString()


REFUSED = [
    (["--rename", "input_id=x"], "no tensor 'input_id'; did you mean 'input_ids'"),
    (["--rename", "input_ids=logits"], "already named 'logits'"),
    (["--rename", "input_ids"], "not of the form OLD=NEW"),
    (["--add-output", "input_ids"], "'input_ids' is an input of the model, so it cannot become an output"),
    (["--drop-output", "logits"], "the only output"),
    (["--drop-output", "logit"], "did you mean 'logits'"),
    (["--order-inputs", "a,b"], "no input 'a'"),
    (["--order-inputs", "input_ids,input_ids"], "'input_ids' is repeated"),
    (["--metadata", "author="], "no metadata 'author'"),
    (["--retype", "logits=float16"], "so a Cast is needed"),
    (["--retype", "logits=float99"], "not an ONNX dtype"),
    (["--retype", "logits=undefined:cast"], "'undefined' is not a dtype"),
    (["--opset", "\u00b2"], "Invalid opset"),
    (["--dim", "batch=--3"], "Invalid size '--3'"),
    (["--free", "\u00b2=batch"], "Invalid axis"),
    ([], "No edits given"),
    (["--check", "none", "--require-proof", "--strip-doc"], "A proof is required"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), REFUSED, ids=lambda item: " ".join(item) if isinstance(item, list) else ""
)
def test_bad_input_is_one_sentence_and_nothing_is_written(tmp_path, arguments, message):
    out = tmp_path / "out.onnx"
    done = run("edit", MODEL, out, *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1
    assert not out.exists()


def test_the_command_keeps_the_order_and_reports(tmp_path):
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    edits = ["--rename", "logits=y", "--add-output", "gelu", "--rename", "gelu=act", "--drop-output", "y"]
    done = run("edit", MODEL, out, *edits, "--report", report, "--diff", "--check", "model")
    assert done.exit_code == 0, done.output
    assert "- output logits: float32[batch, sequence, 400]" in done.output
    assert "+ output act" in done.output
    found = result_in(report.read_text())
    assert [item["edit"] for item in found["edits"]] == ["rename", "add-output", "rename", "drop-output"]
    assert found["outcome"] == "proved"
    assert found["nodes"][1] < found["nodes"][0]
    assert [item.name for item in onnx.load(out).graph.output] == ["act"]


def test_what_is_input_and_output_is_not_retyped():
    """A Cast before it would rename what people feed."""
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [value("x")], [value("x"), value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(surgeon.UsageError, match="'x' is both an input and an output"):
        surgeon.edit(model, Retype("x", "float16", cast=True))


def test_casts_need_an_opset_that_has_them_as_they_are_written():
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [value("x")], [value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 1)], ir_version=3)
    with pytest.raises(surgeon.UsageError, match="A Cast needs opset 6, but the model has opset 1"):
        surgeon.edit(model, Retype("y", "float16", cast=True))
    with pytest.raises(surgeon.UsageError, match="A Cast needs opset 6, but the model has opset 1"):
        surgeon.convert(model)


def test_devices_know_a_tensor_by_its_new_name(branching):
    node = branching.graph.node[0]
    node.device_configurations.add(configuration_id="two").sharding_spec.add(tensor_name="h")
    made, _ = surgeon.edit(branching, Rename("h", "hidden"), check="none")
    assert made.graph.node[0].device_configurations[0].sharding_spec[0].tensor_name == "hidden"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out.json", "has a text suffix, but models are binary"),
        ("recipe.toml", "is not a model. Choose another file, or give --force"),
    ],
)
def test_what_is_no_place_for_a_model_stays_as_it_is(tmp_path, name, message):
    out = tmp_path / name
    out.write_text("[[step]]\n")
    done = run("edit", MODEL, out, "--rename", "logits=y")
    assert (done.exit_code, message in done.output) == (2, True), done.output
    assert out.read_text() == "[[step]]\n"


def test_a_dry_run_writes_nothing(tmp_path):
    out = tmp_path / "out.onnx"
    done = run("edit", MODEL, out, "--rename", "logits=y", "--dry-run")
    assert done.exit_code == 0
    assert "wrote    nothing (" in done.output
    assert not out.exists()


@pytest.mark.parametrize("kind", all_edits().values(), ids=lambda kind: kind.flag)
def test_what_is_spelled_is_read_again(kind):
    texts = {"OLD=NEW": "a=b", "NAME=OTHER": "a=b", "KEY=VALUE": "k=v=w", "A,B": "a,b"}
    texts |= {"NAME=DTYPE[:cast]": "x=bool:cast"}
    texts |= {"AXIS=NAME": "x[1]=a", "NAME=SIZE": "x[1]=7", "N": "21", "POSITIONS": "21", "INPUT=VALUE": "x=1,2"}
    texts |= {"FROM,...=TO,...": "a,b=", "TENSOR=DTYPE[SIZE,...]": "x=float[n,?,3]"}
    texts["[NODE=]N"] = "nms*=300"
    texts["'FROM,...=TO,... OP [NAME=VALUE ...]'"] = "a,b=c d::E f=0.5 'g:ints=[1,2]' h:string=3 j=k"
    text = texts.get(kind.metavar, "name" if kind.metavar else "")
    text = kind.parse(text).spelling if kind.metavar.startswith(("INPUT[", "OUTPUT[")) else text
    assert kind.parse(kind.parse(text).spelling) == kind.parse(text)
    assert kind.parse(text).spelling == text


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (None, "None is not an edit. Give values of surgeon.edits"),
        (5, "5 is not an edit. Give values of surgeon.edits"),
        (surgeon.edits.Rename("x", 5), r"new of Rename: expected a string, got 5"),
    ],
)
def test_what_is_no_edit_is_reported(edits, message):
    with pytest.raises(surgeon.UsageError, match=message):
        surgeon.edit(onnx.load(MODEL), edits)


DOUBLES = [  # a reader of x, in what dtype, another that it takes too, and what it makes
    ("EyeLike", "float", "double", "float"),
    ("SplitToSequence", "float", "double", "seq"),
    ("NonZero", "int64", "float", "int64"),
    ("Cast<to = 1>", "uint8", "int64", "float"),
    ("Cast<to = 10>", "float", "double", "float16"),
    ("IsInf", "float", "double", "bool"),
]


@pytest.mark.parametrize(("reader", "old", "new", "made"), DOUBLES, ids=[row[0] for row in DOUBLES])
def test_a_cast_stands_where_a_reader_would_make_something_else_of_the_new_dtype(reader, old, new, made):
    """What it makes would be of that dtype too, or numbers come that the old one does not hold."""
    text = '<ir_version: 9, opset_import: ["" : 20]> g '
    text += f"({old}[4, 4] x) => ({made if made != 'seq' else 'float'}[m, k] y) {{ y = {reader}(x) }}"
    if made == "seq":
        text = text.replace("y = SplitToSequence(x)", "s = SplitToSequence(x) y = ConcatFromSequence<axis = 0>(s)")
    model = parse(text)
    dtype = {"double": "float64", "float": "float32"}.get(new, new)
    with pytest.raises(surgeon.UsageError, match="so a Cast is needed"):
        surgeon.edit(model, Retype("x", dtype))
    edited, report = surgeon.edit(model, Retype("x", dtype, cast=True))
    assert edited.graph.node[0].op_type == "Cast"
    assert edited.graph.node[0].output[0].startswith("x_")
    assert report.outcome == "proved" or reader == "IsInf"  # which is False of what is finite
    onnx.checker.check_model(edited, full_check=True)


def test_a_cast_to_what_its_opset_does_not_know_is_refused():
    model = parse("(float[4] x) => (float[4] y) { y = Relu(x) }", ir_version=10)
    message = "Cast of opset 17 does not support int4; raise it: surgeon upgrade IN OUT --opset 21"
    with pytest.raises(surgeon.UsageError, match=message):
        surgeon.edit(model, Retype("x", "int4", cast=True), check="none")
    made, _ = surgeon.edit(model, [RaiseOpset(21), Retype("x", "int4", cast=True)], check="none")
    onnx.checker.check_model(made, full_check=True)


def test_an_empty_name_is_no_tensor(branching):
    branching.graph.node[2].input.append("")  # an optional input that is left out
    with pytest.raises(surgeon.UsageError, match="The model has no tensor ''"):
        surgeon.edit(branching, Rename("", "t2"))


@pytest.mark.parametrize(("version", "inputs"), [(3, ["x", "w"]), (9, ["x", "w", "v"])])
def test_an_input_keeps_the_value_that_is_stored_for_it(version, inputs):
    """What only a dropped output reads stays, or goes with its value: nobody has to give it from now on."""
    body = "{ y = Add(x, w) z = Mul(x, v) }"
    stored = "float[2] w = {1.0, 2.0}, float[2] v = {3.0, 4.0}"
    model = parse(f"(float[n, 2] x, {stored}) => (float[n, 2] y, float[n, 2] z) {body}", ir_version=version)
    made, report = surgeon.edit(model, DropOutput("z"))
    assert report.outcome == "proved"
    assert [given.name for given in made.graph.input] == inputs
    assert [tensor.name for tensor in made.graph.initializer] == inputs[1:]
    (answer,) = ort.InferenceSession(made.SerializeToString()).run(None, {"x": np.ones((1, 2), np.float32)})
    assert answer.tolist() == [[2.0, 3.0]]


def test_a_lost_default_is_found_out():
    """By the nodes alone, which are the original's own."""
    from surgeon.pipeline.editing.claim import ModelClaim
    from surgeon.pipeline.editing.structural_proof import structural_difference

    model = parse("(float[n, 2] x, float[2] w = {1.0, 2.0}) => (float[n, 2] y) { y = Add(x, w) }")
    made = onnx.ModelProto()
    made.CopyFrom(model)
    assert not structural_difference(model, made, ModelClaim())
    del made.graph.initializer[:]
    assert structural_difference(model, made, ModelClaim()) == "the input 'w' has lost its default value"
