"""Graphs that make no sense: whatever they hold, what is unknown is unknown and no rule raises."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import surgeon
from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.ir.original_model import OriginalModel
from surgeon.shapes.algebra.size_expressions import Expr
from surgeon.shapes.op_rules.rule_table import RULES
from surgeon.shapes.op_rules.values import integer_values
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import STRICT, NodeView, TensorType
from surgeon.testing import parse

OPS = sorted({*RULES, *integer_values.RULES, "If", "Loop", "Scan", "LSTM", "GridSample"})
ARITHMETIC = "Shape Gather Concat Reshape Add Mul Sub Div Max Min Unsqueeze Slice Expand Range ConstantOfShape Mod"
ATTRIBUTE_NAMES = """axis axes perm to keepdims start end shape value split num_outputs kernel_shape strides pads
    dilations auto_pad equation blocksize batch_dims num_heads num_scan_inputs k output_shape group body then_branch
    scales starts ends noop_with_empty_axes ceil_mode depth allowzero"""
NUMBERS = (-1, 0, 1, 2, 3, 7, 64, 10**12, 2**63 - 1, -(2**63))
DIMS = ("a", "b", 1, 2, 0, 3, None, "a + b", "2*a", 10**15)


def attribute(pick: random.Random) -> Any:
    """A value of any type, fitting the op or not."""
    small = [pick.randrange(-5, 9) for _ in range(pick.randrange(1, 5))]
    tensor = helper.make_tensor("t", TensorProto.INT64, [1], small[:1])
    return pick.choice([small[0], small, 1.5, "ij,jk->ik", tensor, 10**15, "SAME_UPPER"])


def body(pick: random.Random, names: list[str], label: str) -> onnx.GraphProto:
    """A graph for an If, Loop or Scan, with any number of inputs."""
    inputs = [helper.make_tensor_value_info(f"{label}{place}", 1, None) for place in range(pick.randrange(3))]
    read = [pick.choice([*names, *(value.name for value in inputs)]) for _ in range(2)]
    node = helper.make_node(pick.choice(["Relu", "Add", "Concat"]), read, [f"{label}out"])
    return helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info(f"{label}out", 1, None)])


def nonsense(seed: int) -> onnx.ModelProto:
    """A model of 40 random nodes over random inputs and constants."""
    pick = random.Random(seed)
    inputs = []
    for place in range(6):
        dims = [pick.choice(DIMS) for _ in range(pick.randrange(5))] if pick.random() < 0.9 else None
        inputs.append(helper.make_tensor_value_info(f"in{place}", pick.choice([1, 6, 7, 7, 9, 10]), dims))
    lengths = [pick.randrange(5) for _ in range(6)]
    constants = [
        helper.make_tensor(
            f"c{place}", TensorProto.INT64, [n] if n else [], [pick.choice(NUMBERS) for _ in range(n or 1)]
        )
        for place, n in enumerate(lengths)
    ]
    names = [value.name for value in (*inputs, *constants)]
    nodes = []
    for place in range(40):
        op = pick.choice(OPS if pick.random() < 0.6 else ARITHMETIC.split())
        domain, _, name = op.rpartition("::")
        settings = {pick.choice(ATTRIBUTE_NAMES.split()): attribute(pick) for _ in range(pick.randrange(3))}
        if op in ("If", "Loop", "Scan"):
            settings["then_branch" if op == "If" else "body"] = body(pick, names, f"b{place}_")
        read = [pick.choice([*names, "", "nobody"]) for _ in range(pick.randrange(6))]
        made = [f"n{place}_{output}" for output in range(pick.randrange(1, 4))]
        nodes.append(helper.make_node(name, read, made, domain=domain, **settings))
        if nodes[-1].attribute and pick.random() < 0.1:
            nodes[-1].attribute[0].ref_attr_name = "nothing"
        names += made
    imports = [helper.make_opsetid("", pick.choice([6, 9, 11, 13, 18, 21])), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, [], constants), opset_imports=imports)


@pytest.mark.parametrize("start", range(0, 350, 50))
def test_nonsense_is_unknown(start: int) -> None:
    """Facts are made of sizes of at least 0, values of sizes and truths, at every tensor of every scope."""
    for seed in range(start, start + 50):
        index = Index(Model.open(nonsense(seed)))
        shapes = ShapeInference(OriginalModel(index))
        for scope in index.scopes:
            for name in {name for node in scope.nodes for name in (*node.inputs, *node.outputs)}:
                dtype, shape = shapes.facts(scope, name)
                assert dtype is None or isinstance(dtype, int)
                assert all(isinstance(size, Expr) or size >= 0 for size in shape or ())
                value = shapes.value(scope, name)
                assert value is None or all(isinstance(item, (int, Expr)) for item in value.flat)


def test_users_do_not_meet_a_bug_of_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that raises has said nothing, but for tests."""

    def broken(site: NodeView) -> Sequence[TensorType]:
        raise RecursionError

    monkeypatch.setitem(RULES, "Relu", broken)
    text = '<ir_version: 8, opset_import: ["" : 17]> agraph (float[2] x) => (float y) { y = Relu(x) }'
    model = onnx.parser.parse_model(text)
    index = Index(Model.open(model))
    with pytest.raises(RecursionError):
        ShapeInference(OriginalModel(index)).facts(index.main, "y")
    monkeypatch.delenv(STRICT)
    assert ShapeInference(OriginalModel(index)).facts(index.main, "y").dtype == TensorProto.FLOAT


def test_a_ratio_among_integers_is_unknown() -> None:
    """A broken graph joins a float to sizes: what it comes to is no size, and nothing is raised."""
    model = parse("""<ir_version: 9, opset_import: ["" : 18]> g (float[n, 4] x) => (int64[k, m] w) <int64[1] z = {0}> {
        s = Shape (x)  a = Gather (s, z)  f = Cast <to = 1> (a)  h = Constant <value_floats = [3.0]> ()
        r = Div (f, h)  c = Concat <axis = 0> (a, r)  e = Constant <value_ints = [1]> ()  w = Expand (e, c) }""")
    found = surgeon.check(model, load=False)
    assert [one.op for one in found if one.stops] == ["ai.onnx::Concat"]


def test_data_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    """Whoever needs the data says so; who asks for a shape learns less."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> agraph (float[n] x) => (float[m] y)'
        ' <int64[1] target = {-1}> { y = Reshape(x, target) }'
    )
    tensor = model.graph.initializer[0]
    tensor.ClearField("int64_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="gone.bin")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    index = Index(Model.open(tmp_path / "m.onnx"))
    assert len(ShapeInference(OriginalModel(index)).facts(index.main, "y").shape or ()) == 1
