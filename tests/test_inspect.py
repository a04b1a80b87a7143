"""`surgeon inspect`: the facts about a model, for people and as JSON."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from surgeon.targets.inspection.model_summary import inspect, size_text, type_text
from surgeon.testing import parse
from tests.command_line import gelus, result_in, run


def mixed(folder: Path) -> Path:
    """A model with a placeholder op, an op too new, a body, a local function and three kinds of weights."""
    text = """
        <ir_version: 8, opset_import: ["" : 17, "mylibrary" : 1, "local" : 1], producer_name: "exporter",
         producer_version: "1.2">
        g (float[batch, 4] x, bool c) => (float[batch, 4] y) <float[4] w = {1, 2, 3, 4}>
        {
            [first] a = mylibrary.addandround_op(x)
            [second] b = mylibrary.addandround_op(a)
            [new] d = Gelu(b)
            e = local.twice(d)
            y = If (c) <
                then_branch = t () => (float[batch, 4] p) { [inner] p = mylibrary.addandround_op(e) },
                else_branch = s () => (float[batch, 4] q) { q = Mul(e, w) }
            >
        }
        <domain: "local", opset_import: ["" : 17]> twice (v) => (u) { u = Add(v, v) }
    """
    model = onnx.parser.parse_model(text)
    half = numpy_helper.from_array(np.ones((64, 32), np.float16), "half")
    model.graph.initializer.append(half)
    outside = TensorProto(name="outside", data_type=TensorProto.INT8, dims=[1000], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", "1000")):
        outside.external_data.add(key=key, value=value)
    model.graph.initializer.append(outside)
    path = folder / "mixed.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_everything_is_counted_bodies_and_functions_included(tmp_path: Path) -> None:
    """Ops by domain, nodes of bodies and functions, opsets, producer, signature."""
    found = inspect(mixed(tmp_path))
    assert found.ops == {
        "ai.onnx": {"Add": 1, "Gelu": 1, "If": 1, "Mul": 1},
        "local": {"twice": 1},
        "mylibrary": {"addandround_op": 3},
    }
    assert found.nodes == 8
    assert found.opsets == {"ai.onnx": 17, "mylibrary": 1, "local": 1}
    assert (found.producer, found.ir_version) == ("exporter 1.2", 8)
    assert found.inputs == {"x": "float32[batch, 4]", "c": "bool[]"}
    assert found.outputs == {"y": "float32[batch, 4]"}
    assert [(item.name, item.nodes, item.calls) for item in found.functions] == [("local::twice", 1, 1)]


def test_unknown_ops_are_reported_with_their_places(tmp_path: Path) -> None:
    """A placeholder in three nodes, one of them in a body; an op that the opset has not yet; no local function."""
    unknown = {item.op: item for item in inspect(mixed(tmp_path)).unknown}
    assert set(unknown) == {"mylibrary::addandround_op", "Gelu"}
    placeholder = unknown["mylibrary::addandround_op"]
    assert (placeholder.count, placeholder.why) == (3, "custom or placeholder")
    assert placeholder.places == ("first", "second", "inner")
    assert unknown["Gelu"].why == "needs opset 20, but the model has 17"


def test_an_op_that_a_known_domain_lacks_is_reported(tmp_path: Path) -> None:
    """A typing error in com.microsoft is no custom op."""
    graph = helper.make_graph([helper.make_node("Gelluu", ["x"], ["y"], domain="com.microsoft")], "g", [], [])
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    assert [(item.op, item.why, item.places) for item in inspect(path).unknown] == [
        ("com.microsoft::Gelluu", "no such op", ("y",))
    ]


def test_ops_of_onnx_runtime_are_known(tmp_path: Path) -> None:
    """com.microsoft::Gelu needs no warning."""
    out = tmp_path / "out.onnx"
    assert run("rewrite", gelus(tmp_path), out, "-r", "gelu").exit_code == 0
    assert inspect(out).unknown == []


def test_weights_by_place_and_dtype(tmp_path: Path) -> None:
    """Bytes in the file and outside of it; a data file that is missing is told, then its size."""
    path = mixed(tmp_path)
    found = inspect(path)
    assert found.inside == {"float16": 64 * 32 * 2, "float32": 16}
    assert found.outside == {"int8": 1000}
    assert [(item.location, item.used, item.size) for item in found.files] == [("weights.bin", 1000, None)]
    assert "weights.bin: 1 kB used of MISSING" in run("inspect", path).stdout
    (tmp_path / "weights.bin").write_bytes(bytes(4000))
    assert inspect(path).files[0].size == 4000
    assert "weights.bin: 1 kB used of 4 kB" in run("inspect", path).stdout


def test_initializers_are_no_inputs(tmp_path: Path) -> None:
    """Below IR 4 every initializer is listed as an input too; people do not feed them."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "w")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.ones(2, np.float32), "w")],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=3).SerializeToString())
    assert inspect(path).inputs == {"x": "float32[2]"}


def test_console_and_json_say_the_same(tmp_path: Path) -> None:
    """Every fact of the JSON stands in the text."""
    path = mixed(tmp_path)
    text, found = run("inspect", path).stdout, result_in(run("inspect", path, "--json").stdout)
    assert found["ops"]["mylibrary"] == {"addandround_op": 3}
    assert "mylibrary::addandround_op x3 (custom or placeholder) at first, second, inner" in text
    assert "x: float32[batch, 4]" in text
    assert "IR        version 8, made by exporter 1.2" in text
    assert "local::twice: 1 nodes, called 1 times" in text
    assert "ai.onnx 17, mylibrary 1, local 1" in text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (helper.make_tensor_type_proto(TensorProto.INT64, ["n", None, 3]), "int64[n, ?, 3]"),
        (helper.make_tensor_type_proto(TensorProto.FLOAT, None), "float32"),
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.DOUBLE, [])), "seq(float64[])"),
        (helper.make_optional_type_proto(helper.make_tensor_type_proto(99, [])), "optional(dtype 99[])"),
        (helper.make_map_type_proto(7, helper.make_tensor_type_proto(8, [])), "map(int64, string[])"),
        (onnx.TypeProto(), "unknown"),
    ],
)
def test_types_in_words(kind: onnx.TypeProto, text: str) -> None:
    """As people read them."""
    assert type_text(kind) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1234, "1.23 kB"), (5_000_000_000_000_000, "5e+03 TB")]
)
def test_sizes_in_words(size: int, text: str) -> None:
    """Three digits and a unit."""
    assert size_text(size) == text


@pytest.mark.parametrize("field", ["metadata", "graph", "domain", "model_version", "doc_string"])
def test_what_the_header_says_is_shown(tmp_path: Path, field: str) -> None:
    """Exporters note names of classes, strides and the task in metadata_props; a long text is cut on a screen alone."""
    model = parse("(float[2] x) => (float[2] y) { y = Relu(x) }")
    long = "of a detector " * 40
    if field == "metadata":
        model.metadata_props.add(key="stride", value="32")
        model.metadata_props.add(key="names", value=long)
    elif field == "model_version":
        model.model_version = 7
    else:
        setattr(model.graph if field == "graph" else model, "name" if field == "graph" else field, long)
    found = inspect(model)
    onnx.save(model, tmp_path / "in.onnx")
    printed = run("inspect", tmp_path / "in.onnx").output
    if field == "metadata":
        assert found.metadata == {"stride": "32", "names": long}
        assert "metadata  stride: 32\n          names: of a detector" in printed
    else:
        assert found.about[field] == ("7" if field == "model_version" else long)
        assert f"{field}: {found.about[field][:100]}" in printed
    assert long not in printed
    assert ("560 characters; --json has all" in printed) is (field != "model_version")
    data = result_in(run("inspect", tmp_path / "in.onnx", "--json").output)
    assert (data["about"], data["metadata"]) == (found.about, found.metadata)
    assert "stride" not in found.metadata or "stride" in found._repr_html_()
