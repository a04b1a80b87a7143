"""One node in the place of all between two cuts: its attributes, its place, and an implementation that proves it."""

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surgeon
from surgeon.edits import Insert
from surgeon.edits.attribute_text import format_attribute, parse_attribute
from surgeon.testing import parse
from tests import sampling
from tests.edits.samples import random_models, sample

few = settings(max_examples=sampling.examples(20), deadline=None)
IMPLEMENTATION = """
import numpy as np
import surgeon

@surgeon.implements("mine::Squash")
def squash(x, w, *, scale=1.0):
    return (np.concatenate(np.split((x + w) * np.float32(scale), 2, axis=1)[::-1], axis=1),)
"""
REGION = (("x", "w"), ("d",), "mine::Squash")


def insert(model, froms, tos, op, **rest):
    made, report = surgeon.edit(model, Insert(tuple(froms), tuple(tos), op, rest.pop("attributes", {})), **rest)
    return made, report


def ops(model):
    return [node.op_type for node in model.graph.node]


@pytest.fixture
def implementation(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(IMPLEMENTATION)
    return surgeon.CheckOptions(custom_ops=(path,))


def test_an_implementation_proves_it(implementation):
    made, report = insert(sample(), *REGION, attributes={"scale": 0.5}, options=implementation)
    assert report.outcome == "proved"
    assert ops(made) == ["Squash", "Add", "half", "Split", "If", "Constant", "Mul", "Relu", "Neg"]


def test_one_that_computes_otherwise_is_found_out(implementation):
    with pytest.raises(surgeon.CheckFailed, match="differs"):
        insert(sample(), *REGION, attributes={"scale": 0.25}, options=implementation)


def test_without_one_it_is_unproved_and_says_what_to_do():
    _, report = insert(sample(), *REGION)
    assert report.outcome == "unproved"
    assert "mine::Squash" in report.check.reason


def test_what_others_read_stays_and_its_old_result_steps_aside():
    made, report = insert(sample(), ["b"], ["p"], "mine::Half")
    split = next(node for node in made.graph.node if node.op_type == "Split")
    assert list(split.output) == ["p_1", "q"]
    assert [list(node.output) for node in made.graph.node if node.op_type == "Half"] == [["p"]]
    assert "1 node in between stays" in report.edits[0].said[1]
    onnx.checker.check_model(made)


def test_weights_and_functions_of_the_region_go():
    model = sample()
    del model.graph.output[1:], model.graph.node[-1:]
    made, _ = insert(model, ["x"], ["b"], "mine::Both", check="none")
    assert [item.name for item in made.graph.initializer] == ["w", "v"]  # `a` is read by a body
    made, _ = insert(model, ["a", "z", "c"], ["e"], "mine::All", check="none")
    assert [item.name for item in made.graph.initializer] == ["w"]
    assert not made.functions
    assert {item.domain: item.version for item in made.opset_import}["mine"] == 1


def test_an_op_of_onnx_is_typed_by_its_schema_and_proved():
    text = """<ir_version: 9, opset_import: ["" : 18]> g (float[N, 4] x) => (float[N, 4] y)
              <float[1] k = {0.1}> { n = Mul (x, k) y = Max (x, n) }"""
    made, report = insert(onnx.parser.parse_model(text), ["x"], ["y"], "LeakyRelu", attributes={"alpha": 0.1})
    assert report.outcome == "proved"
    assert ops(made) == ["LeakyRelu"]
    made, _ = insert(onnx.parser.parse_model(text), ["x"], ["y"], "LeakyRelu", attributes={"alpha": 1}, check="none")
    assert made.graph.node[0].attribute[0].type == onnx.AttributeProto.FLOAT


def test_a_plugin_is_written_and_what_is_odd_of_it_is_said():
    attributes = {"type_id": 1, "plugin_version": 1}
    made, report = insert(sample(), ["a"], ["b"], "trt.plugins::CustomGeluPluginDynamic", attributes=attributes)
    assert "was removed in TensorRT" in report.edits[0].said[-1]
    node = made.graph.node[1]
    assert {item.name: item.s or item.i for item in node.attribute} == {"type_id": 1, "plugin_version": b"1"}


def test_the_node_stands_behind_what_it_reads_and_before_what_reads_it():
    text = """<ir_version: 9, opset_import: ["" : 18]> g (float[4] x, float[4] z) => (float[4] y, float[4] u)
              { a = Relu (x) e = Neg (a) u = Abs (e) b = Tanh (z) y = Add (a, b) }"""
    made, _ = insert(onnx.parser.parse_model(text), ["x", "b"], ["a", "y"], "mine::Two", check="none")
    assert ops(made) == ["Tanh", "Two", "Neg", "Abs"]
    onnx.checker.check_model(made)


EDGE = """<ir_version: 9, opset_import: ["" : 18]> g (float[4] x, bool c) => (float[4] y, float[4] a)
    <float[4] w = {1, 2, 3, 4}> {
        a = Relu (x) b = Mul (a, w) e = Add (a, b)
        y = If (c) <then_branch = t () => (float[4] t1) { t1 = Neg (b) },
                    else_branch = f () => (float[4] f1) { f1 = Add (e, w) }> }"""


@pytest.mark.parametrize("name", ["x", "a", "b", "w"])
def test_a_node_is_inserted_at_a_tensor(name):
    """All that read the tensor read the node, also in bodies, and names of the model's inputs and outputs stay."""
    model = parse(EDGE)
    made, report = insert(model, [name], [name], "Tanh")
    onnx.checker.check_model(made, full_check=True)
    assert report.edits[0].said == (f"Tanh is inserted at {name!r}",)
    assert report.outcome == "unproved"
    assert "on purpose" in report.check.reason
    assert [value.name for value in [*made.graph.input, *made.graph.output]] == ["x", "c", "y", "a"]
    new = next(node for node in made.graph.node if node.op_type == "Tanh")
    source, result = new.input[0], new.output[0]
    numbers = {key: np.float32([-1, 2, 0.5, 3]) for key in ("x",)} | {"c": np.array(True)}
    values = {"w": np.float32([1, 2, 3, 4]), "x": numbers["x"]}
    for step, function in (("a", lambda v: np.maximum(v["x"], 0)), ("b", lambda v: v["a"] * v["w"])):
        values["x"] = np.tanh(numbers["x"]) if name == "x" else numbers["x"]
        values["w"] = np.tanh(np.float32([1, 2, 3, 4])) if name == "w" else np.float32([1, 2, 3, 4])
        values[step] = np.tanh(function(values)) if name == step else function(values)
    assert result != source
    np.testing.assert_allclose(run(made, numbers), -values["b"], rtol=1e-5)


def run(model, feeds):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["y"], feeds)[0]


def test_a_plugin_at_a_tensor_gets_its_type_and_other_inputs():
    """What nothing infers is declared, and the node may read more than the tensor."""
    made, _ = insert(parse(EDGE), ["b", "a"], ["b"], "trt.plugins::Mine", check="none")
    node = next(node for node in made.graph.node if node.op_type == "Mine")
    assert [*node.input, *node.output] == ["b_Mine", "a", "b"]
    declared = {value.name: value.type.tensor_type.elem_type for value in made.graph.value_info}
    assert declared["b"] == onnx.TensorProto.FLOAT
    with pytest.raises(surgeon.SurgeonError, match="'e' is computed from 'b'"):
        insert(parse(EDGE), ["b", "e"], ["b"], "trt.plugins::Mine", check="none")


@pytest.mark.parametrize(
    ("froms", "tos", "op", "words"),
    [
        (["a"], ["y"], "mine::Op", "the inputs 'z', 'c' are also needed"),
        (["x", "d"], ["a", "f"], "mine::Op", "the inputs 'z', 'c' are also needed"),
        (["x", "b"], ["a", "d"], "mine::Op", "'b' is computed from 'a', 'd', so one node between"),
        (["a"], ["b"], "Celu2", "cannot be inserted"),
        (["a"], ["b"], "Add", "cannot be inserted"),
        (["a"], ["b"], "com.microsoft::Geluu", "cannot be inserted"),
        (["a", "w"], ["b"], "mine::Op", "does not depend on 'w'"),
        (["a"], [], "mine::Op", "output tensors"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(froms, tos, op, words):
    with pytest.raises(surgeon.SurgeonError, match=words):
        insert(sample(), froms, tos, op)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ("a=0.5", 0.5),
        ("a=1e-3", 1e-3),
        ("a=-2", -2),
        ("a=linear", "linear"),
        ("a=True", "True"),
        ("a=[1, 2]", [1, 2]),
        ("a=1,2.5", [1.0, 2.5]),
        ("a=[x,1]", ["x", "1"]),
        ("a:string=3", "3"),
        ("a:float=3", 3.0),
        ("a:floats=3", [3.0]),
        ("a:ints=[]", []),
        ("a=b=c", "b=c"),
        ("a:string=1,2", "1,2"),
    ],
)
def test_attributes_are_typed_as_they_look(text, value):
    assert parse_attribute(text) == ("a", value)
    assert type(parse_attribute(text)[1]) is type(value)
    assert parse_attribute(format_attribute("a", value)) == ("a", value)


@pytest.mark.parametrize("text", ["a", "=1", "a:int=x", "a:number=1", "a:floats=[x]"])
def test_attributes_of_no_form_are_refused(text):
    with pytest.raises(surgeon.UsageError, match="form"):
        parse_attribute(text)


@few
@given(random_models(), st.data())
def test_a_node_for_any_region_makes_a_model_that_holds_together(model, data):
    made = [name for node in model.graph.node for name in node.output]
    known = [value.name for value in model.graph.input] + made
    froms = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
    tos = data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=2, unique=True))
    try:
        after, report = insert(model, froms, tos, "mine::Op", check="none")
    except surgeon.UsageError:
        return  # told apart above
    onnx.checker.check_model(after)
    assert report.outcome == "unchecked"
    assert sum(node.op_type == "Op" for node in after.graph.node) == 1
    read = {name for node in after.graph.node for name in node.input} | {value.name for value in after.graph.output}
    kept = {node.SerializeToString() for node in model.graph.node}
    strange = [node for node in after.graph.node if node.SerializeToString() not in kept and node.op_type != "Op"]
    assert len(strange) <= len(tos)
    assert not set(tos) - read - {name for node in after.graph.node for name in node.output}


def test_values_are_run_as_they_are(implementation):
    """The same numbers, told without surgeon's check."""
    made, _ = insert(sample(), *REGION, attributes={"scale": 0.5}, check="none")
    node = next(node for node in made.graph.node if node.op_type == "Squash")
    assert (list(node.input), list(node.output)) == (["x", "w"], ["d"])
    assert np.float32(node.attribute[0].f) == np.float32(0.5)


def test_a_stored_output_is_nothing_that_a_node_could_make():
    """Though an extract may keep it."""
    model = parse("""<ir_version: 9, opset_import: ["" : 18]> g (float[n, 4] x) => (float[n, 4] y, float[4] k)
        <float[4] k = {1.0, 2.0, 3.0, 4.0}> { e = Exp (x)  y = Neg (e) }""")
    with pytest.raises(surgeon.UsageError, match="'k' is an initializer. Choose a tensor that a node produces"):
        surgeon.edit(model, Insert(("e",), ("y", "k"), "acme::Both"), check="none")
    made, report = surgeon.edit(model, surgeon.edits.Extract((), ("e", "k")), check="model")
    assert ([value.name for value in made.graph.output], report.outcome) == (["e", "k"], "proved")


@pytest.mark.parametrize(
    ("body", "op", "stored"),
    [
        ("y = Min (x, c)", "Identity", 1e3),
        ("y = Clip (x, , c)", "Identity", 1e6),
        ("n = Greater (x, c) z = Sub (x, x) y = Where (n, x, z)", "Relu", 1e-2),
    ],
    ids=str,
)
def test_a_node_that_parts_at_a_number_of_the_original_is_not_proved(body, op, stored):
    """Inputs meet the numbers that either of the two decides at, however far these lie from what is usual."""
    model = parse(f"(float[n, 4] x) => (float[n, 4] y) <float c = {{{stored}}}> {{ {body} }}")
    with pytest.raises(surgeon.CheckFailed, match="Output 'y' differs by"):
        insert(model, ["x"], ["y"], op)


def test_a_node_reads_the_inputs_that_have_a_default():
    """What the stored value makes is not what another does that a caller gives."""
    model = parse("(float[n, 2] x, float[2] w = {1.0, 1.0}) => (float[n, 2] y) { y = Mul(x, w) }")
    with pytest.raises(surgeon.UsageError, match="the input 'w' is also needed"):
        insert(model, ["x"], ["y"], "Identity")
    made, report = insert(model, ["x", "w"], ["y"], "Mul")
    assert report.outcome == "proved"
    assert [given.name for given in made.graph.input] == ["x", "w"]
    model.ir_version = 3  # by which nobody may give another
    assert insert(model, ["x"], ["y"], "Identity")[1].outcome == "proved"


def test_the_function_does_what_the_edit_does(implementation, tmp_path):
    """One name or several, in memory and from file to file, with what `surgeon.edit` takes."""
    model = sample()
    made, report = surgeon.insert(model, *REGION, attributes={"scale": 0.5}, name="mine", options=implementation)
    assert report.outcome == "proved"
    assert made == surgeon.edit(model, Insert(*REGION, {"scale": 0.5}, "mine"), options=implementation)[0]
    assert [node.name for node in made.graph.node if node.op_type == "Squash"] == ["mine"]
    assert surgeon.insert(model, *REGION)[1].outcome == "unproved"
    onnx.save(parse("(float[n] x) => (float[n] y) { a = Neg(x) y = Neg(a) }"), tmp_path / "m.onnx")
    to, report = surgeon.insert(tmp_path / "m.onnx", "x", "y", "Identity", output=tmp_path / "o.onnx")
    assert (report.outcome, ops(onnx.load(to))) == ("proved", ["Identity"])
    with pytest.raises(surgeon.CheckFailed):
        surgeon.insert(tmp_path / "m.onnx", "x", "y", "Abs", output=tmp_path / "other.onnx")
    assert not (tmp_path / "other.onnx").exists()
