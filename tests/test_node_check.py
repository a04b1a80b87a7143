"""Nodes against their schemas: every violation, one sentence each, and none that is not there."""

from typing import Any

import onnx
import pytest
from onnx import TensorProto

from surgeon.ops.schemas import check_node

FLOAT, HALF, INT64, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL


def said(
    op: str,
    inputs: list[str],
    outputs: list[str],
    opset: int,
    dtypes: dict[str, int] | None = None,
    domain: str = "",
    **attributes: Any,
) -> list[str]:
    """What is wrong with a node; `dtypes` by tensor name."""
    node = onnx.helper.make_node(op, inputs, outputs, domain=domain)
    for name, value in attributes.items():
        node.attribute.append(onnx.helper.make_attribute(name, value))
    return check_node(node, opset, (dtypes or {}).get)


@pytest.mark.parametrize(
    ("op", "inputs", "opset", "kwargs"),
    [
        ("Relu", ["x"], 13, {"dtypes": {"x": FLOAT, "y": FLOAT}}),
        ("Relu", ["x"], 13, {"domain": "ai.onnx"}),
        ("Gelu", ["x"], 1, {"domain": "com.microsoft", "dtypes": {"x": HALF}}),
        ("SimplifiedLayerNormalization", ["x", "s"], 17, {"dtypes": {"x": HALF, "s": FLOAT}, "epsilon": 1e-5}),
        ("Clip", ["x", "", "max"], 13, {"dtypes": {"x": FLOAT, "max": FLOAT}}),
        ("Where", ["c", "x", "z"], 16, {"dtypes": {"c": BOOL, "x": HALF, "z": HALF}}),
        ("Concat", ["x", "z"], 13, {"dtypes": {"x": HALF}, "axis": 0}),
        ("Anything", ["x"] * 9, 1, {"domain": "my.domain", "foo": 1}),
        ("Relu", ["x"], 99, {}),
    ],
)
def test_nodes_that_fit_pass(op: str, inputs: list[str], opset: int, kwargs: dict[str, Any]) -> None:
    assert said(op, inputs, ["y"], opset, **kwargs) == []


VIOLATIONS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (("Gelluu", ["x"], ["y"], 1), {"domain": "com.microsoft"}, "com.microsoft has no op Gelluu; the nea"),
    (("Gelu", ["x"], ["y"], 17), {}, "ai.onnx has no Gelu at opset 17; Gelu needs opset 20."),
    (("Upsample", ["x", "s"], ["y"], 10), {}, "Upsample is deprecated in ai.onnx since opset 10."),
    (("Relu", ["x", "z"], ["y"], 13), {}, "Relu has 1 input, but this node has 2."),
    (("Gemm", ["x"], ["y"], 13), {}, "Gemm has at least 2 inputs, but this node has 1."),
    (("Relu", ["x"], ["y", "z"], 13), {}, "Relu has 1 output, but this node has 2."),
    (("Add", ["", "x"], ["y"], 13), {}, "The input 'A' of Add is required, but this node does not have it."),
    (("Concat", ["x"], ["y"], 13), {}, "Concat needs the attribute 'axis'."),
    (("Gelu", ["x"], ["y"], 20), {"aproximate": "tanh"}, "Gelu has no attribute 'aproximate' at version 20"),
    (("Gelu", ["x"], ["y"], 1), {"domain": "com.microsoft", "beta": 1.0}, "Gelu has no attribute 'beta' at version 1"),
    (("ReduceMean", ["x"], ["y"], 18), {"axes": [1]}, "ReduceMean has no attribute 'axes' at version 18"),
    (("LeakyRelu", ["x"], ["y"], 16), {"alpha": 1}, "'alpha' of LeakyRelu must be a number, not an integer."),
    (("Erf", ["x"], ["y"], 9), {"dtypes": {"x": BOOL}}, "The input 'input' of Erf is tensor(bool) ('x'), but must"),
    (
        ("Add", ["x", "z"], ["y"], 13),
        {"dtypes": {"x": FLOAT, "z": HALF}},
        "'x' and 'z' of Add must have the same dtype, but are tensor(float) and tensor(float16).",
    ),
    (
        ("Relu", ["x"], ["y"], 13),
        {"dtypes": {"x": FLOAT, "y": HALF}},
        "'x' and 'y' of Relu must have the same dtype, but are tensor(float) and tensor(float16).",
    ),
    (("Reshape", ["x", "s"], ["y"], 13), {"dtypes": {"s": FLOAT}}, "'shape' of Reshape is tensor(float) ('s'), but"),
]


@pytest.mark.parametrize(("node", "kwargs", "sentence"), VIOLATIONS, ids=[one[2][:40] for one in VIOLATIONS])
def test_each_violation_is_one_sentence(node: tuple[Any, ...], kwargs: dict[str, Any], sentence: str) -> None:
    found = said(*node, **kwargs)
    assert len(found) == 1
    assert sentence in found[0]
    assert found[0].endswith(".")


def test_all_violations_are_reported_at_once() -> None:
    assert len(said("Concat", [], ["y", "z"], 13, foo=1)) == 4


def test_inputs_of_a_heterogeneous_variadic_may_differ() -> None:
    body = onnx.helper.make_graph([], "body", [], [])
    dtypes = {"m": INT64, "c": BOOL, "x": FLOAT, "z": INT64}
    assert said("Loop", ["m", "c", "x", "z"], ["y", "w"], 13, dtypes, body=body) == []


def test_references_to_the_attributes_of_a_function_are_for_functions_only() -> None:
    node = onnx.helper.make_node("LeakyRelu", ["x"], ["y"])
    node.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    assert check_node(node, 16, lambda _: None, in_function=True) == []
    assert check_node(node, 16, lambda _: None) == [
        "The attribute 'alpha' of LeakyRelu refers to 'slope' outside a function."
    ]


def test_an_attribute_given_twice() -> None:
    node = onnx.helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.1)
    node.attribute.append(onnx.helper.make_attribute("alpha", 0.2))
    assert check_node(node, 16, lambda _: None) == ["This node has the attribute 'alpha' of LeakyRelu twice."]


def test_what_the_checker_refuses_is_refused() -> None:
    """Every violation above that onnx.checker also sees must stay one for us; the rest is what it does not see."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = 10
    seen = 0
    for (op, inputs, outputs, opset), kwargs, _ in VIOLATIONS:
        attributes = {key: value for key, value in kwargs.items() if key not in ("domain", "dtypes")}
        node = onnx.helper.make_node(op, inputs, outputs, domain=kwargs.get("domain", ""), **attributes)
        context.opset_imports = {"": opset, "com.microsoft": 1}
        try:
            onnx.checker.check_node(node, context)
        except onnx.checker.ValidationError:
            seen += 1
            assert said(op, inputs, outputs, opset, **kwargs)
    assert seen >= 8
