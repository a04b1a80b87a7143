"""Values that are rare in models and patterns: tensors as attributes, strings that are not UTF-8, calls without end."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.errors import GraphError
from surgeon.file.tensors.decoding import decode_tensor, encode
from surgeon.testing import parse
from tests.command_line import run

PAIR = np.array([1, 2], np.int64)


def with_attribute(value):
    model = parse("(float[2] x) => (float[2] y) { y = acme.Look(x) }")
    if isinstance(value, list):
        value = [numpy_helper.from_array(item) for item in value]
    if value is not None:
        tensor = numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        model.graph.node[0].attribute.append(helper.make_attribute("table", tensor))
    return model


@pytest.mark.parametrize(
    ("found", "count"),
    [
        (PAIR, 1),
        (PAIR + 1, 0),
        (PAIR.astype(np.int32), 0),
        (PAIR[:1], 0),
        (np.array([[1, 2]]), 0),
        (np.arange(100), 0),
        (np.array(["a", "b"], object), 0),
        ([PAIR], 0),
        (3, 0),
        ("text", 0),
        (None, 0),
    ],
    ids=str,
)
def test_a_tensor_as_an_attribute_is_matched_by_its_value(found, count):
    @surgeon.rule(patterns=[lambda g, x: g.op("acme::Look", x, table=PAIR)], target="any")
    def seen(g, x):
        return g.op("acme::Seen", x, table=PAIR)

    model = with_attribute(found)
    made, report = surgeon.rewrite(model, seen, check="none")
    assert report.counts["seen"] == count
    if count:
        assert np.array_equal(numpy_helper.to_array(made.graph.node[0].attribute[0].t), PAIR)
    else:
        assert "seen" in str(surgeon.explain(model, seen))


@pytest.mark.parametrize("value", [np.ones(1, np.float32), np.full(1, 2, np.int64)], ids=["float32", "int64"])
def test_a_miss_of_a_tensor_attribute_is_one_line(value):
    @surgeon.rule(patterns=[lambda g, s: g.constant_of_shape(s, value=np.ones(1, np.int64))], target="any")
    def ones(g, s):
        return g.expand(np.int64(1), s)

    model = parse("(int64[1] s) => (float[n] y) { y = ConstantOfShape(s) }")
    model.graph.node[0].attribute.append(helper.make_attribute("value", numpy_helper.from_array(value)))
    said = str(surgeon.explain(model, ones))
    assert "expected value = [1] (int64[1])" in said
    assert f"{value.tolist()} ({value.dtype}[1])" in said


def test_strings_of_any_bytes_come_back():
    tensor = TensorProto(name="t", data_type=TensorProto.STRING, dims=[2, 1], string_data=[b"\xed\xa0\x80", b"\xff"])
    assert encode(decode_tensor(tensor), "t") == tensor


@pytest.mark.parametrize("data", [b"\xed\xa0\x80", b"\xff\xfe", b"a\x80b", b"plain"])
@pytest.mark.parametrize(
    "text",
    [
        "{ i = Identity(t)  e = Equal(x, i)  y = Not(e) }",
        "{ c = Concat<axis = 0>(t, t)  d = Concat<axis = 0>(t, t)  e = Equal(c, d)  f = Equal(x, t) y = Not(f) }",
        "{ g = Gather(t, k)  e = Equal(x, g)  n = Not(e)  m = Not(n)  y = Not(m) }",
    ],
    ids=["identity", "concat", "gather"],
)
def test_strings_that_are_not_utf_8_survive_a_rewrite(data, text, tmp_path):
    model = parse(f"(string[1] x) => (bool[1] y) <int64[1] k = {{0}}> {text}")
    stored = TensorProto(name="t", data_type=TensorProto.STRING, dims=[1], string_data=[data])
    model.graph.initializer.append(stored)
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    found = run("rewrite", source, out, "--rules", "cleanup")
    assert found.exit_code == 0, found.stderr
    kept = [item for item in onnx.load(out).graph.initializer if item.data_type == TensorProto.STRING]
    assert kept
    assert all(set(item.string_data) == {data} for item in kept)


def calling(times, depth, *, within=False):
    """Functions each of which calls the one before it several times; with `within`, in the branch of an If."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    model = parse("(float[4] x) => (float[4] y) { y = Relu(x) }")
    model.opset_import.add(domain="my", version=1)
    for level in range(depth):
        op, domain = (f"F{level - 1}", "my") if level else ("Relu", "")
        nodes = [helper.make_node(op, [f"t{k}"], [f"t{k + 1}"], domain=domain) for k in range(times)]
        if within:
            branch = helper.make_graph(nodes, "branch", [], [helper.make_empty_tensor_value_info(f"t{times}")])
            cond = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
            nodes = [cond, helper.make_node("If", ["c"], ["out"], then_branch=branch, else_branch=branch)]
        last = "out" if within else f"t{times}"
        model.functions.append(helper.make_function("my", f"F{level}", ["t0"], [last], nodes, opsets))
    model.graph.node[0].CopyFrom(helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="my"))
    return model


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (calling(2, 40), f"{2**40:,}"),
        (calling(3, 26), f"{3**26:,}"),
        (calling(1100, 2), f"{1100**2:,}"),
        (calling(2, 40, within=True), ""),
    ],
    ids=["twice", "thrice", "broad", "in branches"],
)
@pytest.mark.parametrize("command", ["rewrite", "explain", "compare", "check", "convert", "draw"])
def test_functions_that_stand_for_too_many_nodes_are_refused_before_they_are_inlined(model, count, command, tmp_path):
    source, out = str(tmp_path / "in.onnx"), str(tmp_path / "out.svg")
    onnx.save(model, source)
    rest = {
        "rewrite": (out, "--rules", "ort"),
        "explain": ("--rules", "gelu"),
        "compare": (source,),
        "convert": (out,),
        "draw": (out,),
    }
    found = run(command, source, *rest.get(command, ()))
    assert found.exit_code == (1 if command == "check" else 2)
    assert f"the model has {count}" in (found.stdout + found.stderr).lower()
    assert not (tmp_path / "out.svg").exists()


def test_functions_that_are_called_often_are_no_fault():
    made, report = surgeon.rewrite(calling(2, 8), "gelu", check="none")
    assert report.counts == dict.fromkeys(report.counts, 0)
    with pytest.raises(GraphError, match="The largest function is my::F25"):
        surgeon.compare(calling(2, 26), calling(2, 26))
