"""Recurrent layers with quantised weights: as ONNX Runtime has them, and as LSTM."""

import numpy as np
import pytest
from onnx import helper, numpy_helper
from surgeon.patterns.quantization.dynamic_quantize_lstm import dynamic_quantize_lstm

import surgeon
from surgeon.rules.catalogue import resolve, unique_rules
from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import check_parses

INPUTS, STATES = 5, 4


def model(dtype=np.int8, directions=1, columns=False, read="yhc", computed=False):
    """One DynamicQuantizeLSTM.  columns: a scale for each column.  read: which of its outputs are outputs."""
    numbers = np.random.default_rng(0)
    limits, gates = np.iinfo(dtype), 4 * STATES
    sizes = (directions, gates) if columns else (directions,)
    middle = 0 if dtype == np.int8 else 128
    held = {"b": numbers.normal(size=(directions, 2 * gates)).astype(np.float32)}
    for name, rows in (("w", INPUTS), ("r", STATES)):
        held[name] = numbers.integers(limits.min // 2, limits.max, (directions, rows, gates)).astype(dtype)
        held[f"{name}s"] = (numbers.random(sizes) * 0.001 + 0.002).astype(np.float32)
        held[f"{name}z"] = np.full(sizes, middle, dtype)
    names = ["x", "w", "r", "b", "", "h0", "c0", "", "ws", "wz", "rs", "rz"]
    outputs = [name if name in read else "" for name in "yhc"]
    direction = "bidirectional" if directions == 2 else "forward"
    attributes = {"hidden_size": STATES, "direction": direction, "domain": "com.microsoft"}
    node = helper.make_node("DynamicQuantizeLSTM", names, outputs, **attributes)
    state = [directions, "b", STATES]
    shapes = {"x": ["s", "b", INPUTS], "h0": state, "c0": state, "y": ["s", *state], "h": state, "c": state}
    ends = {name: helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()}
    given = [ends[name] for name in ("x", "h0", "c0")]
    if computed:
        kind = helper.np_dtype_to_tensor_dtype(held["w"].dtype)
        given.append(helper.make_tensor_value_info("w", kind, held.pop("w").shape))
    weights = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph([node], "g", given, [ends[name] for name in read], weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


FIRES = [
    Case(dynamic_quantize_lstm, "int8, one scale", model(), target="tensorrt"),
    Case(dynamic_quantize_lstm, "both directions, its states unread", model(directions=2, read="y"), target="onnx"),
    Case(dynamic_quantize_lstm, "uint8, the last state alone", model(np.uint8, read="h"), target="decomposed"),
    Case(dynamic_quantize_lstm, "a scale of each column, without y", model(columns=True, read="hc"), target="onnx"),
]
NEGATIVES = [
    Case(dynamic_quantize_lstm, "ONNX Runtime has it", model(), why="runs it as it is"),
    Case(dynamic_quantize_lstm, "weights that are computed", model(computed=True), target="onnx", why="constant"),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_tensorrt_builds_it():
    check_parses(FIRES[0], "86")


@pytest.mark.parametrize("group", ["tensorrt", "onnx"])
def test_it_joins_groups_where_approximate_rules_are_asked_for(group):
    assert dynamic_quantize_lstm in unique_rules(resolve(group, approximate=True))
    assert dynamic_quantize_lstm not in unique_rules(resolve(group, approximate=False))
    made, _ = surgeon.rewrite(model(), "lowering", target="onnx", check="none", approximate=True)
    assert [node.op_type for node in made.graph.node] == ["DynamicQuantizeLSTM"]


@pytest.mark.parametrize("sizes", [{}, {"directions": 2}, {"dtype": np.uint8}, {"columns": True}], ids=str)
def test_check_names_no_group_that_leaves_it_out(sizes):
    """The command without --approximate would not help."""
    (found,) = [one for one in surgeon.check(model(**sizes), "tensorrt", load=False) if one.stops]
    assert [text.rpartition("--rules ")[2].split()[0] for text in found.helps if "IN OUT --rules" in text] == [
        "dynamic_quantize_lstm"
    ]
