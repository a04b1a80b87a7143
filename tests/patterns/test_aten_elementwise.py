"""Placeholders of ATen's functions of one number: what becomes ONNX's op, what does not match and why."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from surgeon.patterns.placeholders.aten_elementwise import SAME, aten_elementwise

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = '<ir_version: 8, opset_import: ["" : {}, "aten" : 1, "other" : 1]> g (float[n, 4] x) => (float[n, 4] y)'
TYPED = HEAD + " <float[n, 4] a>"


def graph(body, opset=17, head=HEAD, **dtypes):
    """A model of one placeholder."""
    text = f"{head.format(opset)} {{ {body} }}"
    for old, new in dtypes.items():
        text = text.replace(f"float[n, 4] {old}", f"{new}[n, 4] {old}")
    return parse(text)


# fmt: off
FIRES = [
    Case(aten_elementwise, "asinh", graph("y = aten.asinh(x)")),
    Case(aten_elementwise, "two of them", graph("a = aten.sinh(x) y = aten.tan(a)", head=TYPED), sites=2),
    Case(aten_elementwise, "of doubles", graph("y = aten.ceil(x)", x="double", y="double")),
]
NEGATIVES = [
    Case(aten_elementwise, "an opset before the op", graph("y = aten.mish(x)"), why="Mish needs opset 18"),
    Case(aten_elementwise, "integers", graph("y = aten.asinh(x)", x="int32"), why="tensor(int32)"),
    Case(aten_elementwise, "an attribute that says more", graph("y = aten.round<decimals = 2>(x)"), why="decimals"),
    Case(aten_elementwise, "another domain", graph("y = other.asinh(x)"), why="(domain other)"),
    Case(aten_elementwise, "doubles, for which there is no kernel", graph("y = aten.sinh(x)", x="double", y="double"),
         why="no kernel"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(replace(case, check="sites"))


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize("name", SAME)
def test_the_table_says_what_torch_computes(name):
    """On numbers that tell rounding, poles and signs; NaN where torch has NaN."""
    x = np.array([[-2.5, -1.5, -0.5, -0.0], [0.3, 0.5, 1.5, 2.5], [np.inf, -np.inf, np.nan, 1.0]], np.float32)
    kinds = {"logical_not": ("bool", bool), "bitwise_not": ("int64", np.int64)}
    given, dtype = kinds.get(name, ("float", np.float32))
    made = {"logical_not": "bool", "bitwise_not": "int64", "isnan": "bool", "isinf": "bool"}.get(name, "float")
    x = np.arange(12).reshape(3, 4) - 5 if dtype is np.int64 else x.astype(dtype)
    model, report = surgeon.rewrite(graph(f"y = aten.{name}(x)", 18, x=given, y=made), aten_elementwise, check="none")
    assert len(report.sites) == 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = getattr(torch.ops.aten, name)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(session.run(None, {"x": x})[0], wanted, rtol=1e-5, atol=1e-6)
    onnx.checker.check_model(model)
