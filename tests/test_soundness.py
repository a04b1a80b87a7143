"""Models that contradict themselves are refused in one sentence, before anything is written."""

from pathlib import Path

import onnx
import pytest
from onnx import helper

from surgeon import GraphError, rewrite
from surgeon.testing import parse
from tests.command_line import run
from tests.hostile import bombs

PLAIN = "(float[n, 4] x) => (float[n, 4] y) { e = Erf(x) y = Relu(e) }"


def plain(**changes: object) -> onnx.ModelProto:
    model = parse(PLAIN)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def opset(version: int, domain: str = "") -> onnx.ModelProto:
    model = parse(PLAIN)
    model.opset_import.add(domain=domain, version=version)
    return model


def without_kinds() -> onnx.NodeProto:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    node.attribute[0].ClearField("type")
    return node


def nodes(*listed: onnx.NodeProto) -> onnx.ModelProto:
    model = parse(PLAIN)
    del model.graph.node[:]
    model.graph.node.extend(listed)
    return model


def branches(first: str, condition: str, more: str = "", made: str = "y") -> onnx.ModelProto:
    """An If with an else_branch that declares no outputs.  first: the outputs of the other branch."""
    return parse(
        f"(float[n, 4] x{more}) => (float[n, 4] y) <bool yes = {{1}}> {{ {made} = If({condition}) "
        f"<then_branch = t () => ({first}) {{ a = Neg(x) }}, else_branch = e () => () {{ b = Abs(x) }}> }}"
    )


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (bombs._opset_beyond(), r"The model imports opset 2147483648 of ai\.onnx, which does not exist"),
        (bombs._opset_below(), r"The model imports opset -9223372036854775808 of ai\.onnx, which does not exist"),
        (opset(11), r"The model imports the opsets 17 and 11 of ai\.onnx"),
        (opset(0, "my"), "The model imports opset 0 of my, which does not exist"),
        (plain(ir_version=-1), "has IR version -1"),
        (plain(ir_version=1 << 40), "has IR version 1099511627776"),
        (bombs._an_output_without_name(), "An output of the graph has no name"),
        (bombs._an_initializer_twice(), "The initializer 'c' exists twice in the graph"),
        (bombs._data_of_no_type(), "The initializer 'c' has the unknown dtype 99"),
        (bombs._an_input_without_type(), "The input 'x' of the graph has no type. Declare its dtype"),
        (bombs._two_functions_of_one_name(), "The local function my::F2 exists twice"),
        (bombs._a_function_that_calls_itself(), r"The local function my::F\d+ calls itself, which ONNX does not allow"),
        (
            nodes(helper.make_node("Add", ["x"], ["y"])),
            r"Node 'y' \(Add\) has 1 inputs and 1 outputs, but needs at least 2 and 1",
        ),
        (
            nodes(helper.make_node("Softmax", ["x"], ["y"], axis="two")),
            r"The attribute axis of node 'y' \(Softmax\) has type STRING, but must have INT",
        ),
        (nodes(without_kinds()), r"The attribute axis of node 'y' \(Softmax\) has type UNDEFINED, but must have INT"),
        (nodes(helper.make_node("Relu", [], ["y"])), r"\(Relu\) has 0 inputs and 1 outputs, but needs at least 1"),
        (
            nodes(helper.make_node("Abs", ["x"], ["y"]), helper.make_node("Relu", ["x"], [], name="r")),
            r"Node 'r' \(Relu\) has 1 inputs and 0 outputs",
        ),
        (parse("(float[n, 4] x) => () { e = Erf(x) y = Relu(e) }"), "The model declares no outputs, so none of"),
        (branches("", "yes"), r"The then_branch of node 'y' \(If\) declares 0 outputs, but the node has 1"),
        (branches("float[n, 4] a", "yes"), r"The else_branch of node 'y' \(If\) declares 0 outputs, but"),
        (branches("", "c", ", bool c"), r"The then_branch of node 'y' \(If\) declares 0 outputs, but the node has 1"),
        (branches("float[n, 4] a", "yes", made="y, z"), r"The then_branch of node 'y' \(If\) declares 1 output, but"),
    ],
)
def test_what_is_no_model_is_refused(model: onnx.ModelProto, why: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=why):
        rewrite(model, "gelu", check="none")
    source = tmp_path / "in.onnx"
    source.write_bytes(model.SerializeToString())
    found = run("rewrite", source, tmp_path / "out.onnx", "--rules", "gelu")
    assert found.exit_code == 2
    assert found.stderr.startswith("Error: ")
    assert found.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.onnx"]


def test_a_caller_on_the_way_to_a_cycle_is_not_blamed() -> None:
    """F39 calls F38 and so on, and F0 calls F1: only those two call themselves."""
    model = bombs._functions_that_call_the_last_twice()
    model.functions[0].node[0].CopyFrom(helper.make_node("F1", ["a"], ["b"], domain="my"))
    with pytest.raises(GraphError, match="my::F[01] calls itself"):
        rewrite(model, "gelu", check="none")


def test_what_runs_all_the_same_is_taken() -> None:
    """An opset that is imported twice alike, an input of no type that nothing reads, functions that nobody calls."""
    model = opset(17)
    model.graph.input.add(name="unused")
    model.functions.append(helper.make_function("my", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], []))
    out, report = rewrite(model, "gelu", check="none")
    assert report.counts["gelu"] == 0
    assert out == model
