"""Models that declare another opset than that of their nodes: the declaration is repaired where one opset fits all."""

import onnx
import pytest

import surgeon
from surgeon import GraphError
from surgeon.edits import RaiseOpset
from surgeon.testing import parse

HEAD = "(float[2, 4, 8] x, float[8] w) => (float[n, m, k] y)"
BODIES = {
    "a norm of opset 23": (18, "r = Relu(x) y = RMSNormalization(r, w)", 23),
    "gelu": (18, "y = Gelu(x)", 20),
    "both": (17, "g = Gelu(x) y = RMSNormalization(g, w)", 23),
    "an input that was an attribute": (11, "a = Constant<value_ints = [2]>() s = ReduceSum(x, a) y = Add(x, s)", 13),
    "in a body": (
        18,
        "c = Constant<value = bool {1}>() y = If(c) <then_branch = t () => (float[2, 4, 8] u) { u = Gelu(x) }, "
        "else_branch = e () => (float[2, 4, 8] v) { v = Relu(x) }>",
        20,
    ),
}


def model(opset: int, body: str) -> onnx.ModelProto:
    """A model of three axes that declares an opset."""
    return parse(f'<ir_version: 8, opset_import: ["" : {opset}]> g {HEAD} {{ {body} }}')


def declared(made: onnx.ModelProto) -> int:
    """Its opset of ai.onnx."""
    return made.opset_import[0].version


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("case", BODIES)
def test_the_declaration_becomes_that_of_the_nodes(case: str, more: int, tmp_path) -> None:
    """The nodes stay as they are; what is asked for beyond that is raised as ever.  `edit --opset` does the same."""
    opset, body, right = BODIES[case]
    onnx.save(model(opset, body), tmp_path / "in.onnx")
    done = surgeon.upgrade(tmp_path / "in.onnx", right + more, tmp_path / "out.onnx")
    made = onnx.load(tmp_path / "out.onnx")
    assert (done.opset, declared(made)) == ((opset, right + more), right + more)
    assert done.declared.startswith(f"the model declares opset {opset}, which ")
    assert list(made.graph.node) == list(model(opset, body).graph.node)
    onnx.checker.check_model(made)
    edited, report = surgeon.edit(model(opset, body), [RaiseOpset(right + more)])
    assert declared(edited) == right + more
    assert done.declared in report.edits[0].said
    if case != "an input that was an attribute":  # ReduceSum stays as it is up to opset 12
        with pytest.raises(GraphError, match=f"No opset up to {right - 1} fits all nodes"):
            surgeon.upgrade(tmp_path / "in.onnx", right - 1, tmp_path / "out.onnx")


def test_a_declaration_that_fits_stays(tmp_path) -> None:
    """Also where ONNX Runtime alone has the op at that opset."""
    onnx.save(model(14, "r = Relu(x) y = LayerNormalization(r, w)"), tmp_path / "in.onnx")
    assert surgeon.upgrade(tmp_path / "in.onnx", 18, tmp_path / "out.onnx").declared == ""


def test_nodes_of_two_opsets_are_refused(tmp_path) -> None:
    """One that newer opsets have not any more, and one that means something else in each of the two opsets."""
    onnx.save(model(7, "u = Upsample<scales = [1.0, 1.0, 2.0]>(x) y = Gelu(u)"), tmp_path / "in.onnx")
    with pytest.raises(GraphError, match="Opset 20 fits all nodes, but Upsample at .* means something else there"):
        surgeon.upgrade(tmp_path / "in.onnx", 23, tmp_path / "out.onnx")
    onnx.save(model(12, "s = Softmax<axis = 1>(x) y = Gelu(s)"), tmp_path / "in.onnx")
    with pytest.raises(GraphError, match="Opset 20 fits all nodes, but Softmax at .* means something else there"):
        surgeon.upgrade(tmp_path / "in.onnx", 20, tmp_path / "out.onnx")
