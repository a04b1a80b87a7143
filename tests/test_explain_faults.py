"""One fault at a time in every part of a GELU: each is told as what it is, and mending it makes the rule fire."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from surgeon.patterns.activations.gelu import gelu

from surgeon import rewrite
from surgeon.diagnostics.explanation import explain
from surgeon.rules.matching import matcher
from surgeon.rules.mismatches import furthest_failure
from tests.models import graph, opset
from tests.test_explain import CONSTANTS, GELU

ORDERS = {
    "as exported": GELU,
    "half first": "d = Div(x, sqrt2) e = Erf(d) a = Add(one, e) m = Mul(half, a) y = Mul(x, m)",
    "half on x": "d = Div(x, sqrt2) e = Erf(d) a = Add(e, one) m = Mul(x, half) y = Mul(a, m)",
}


def model_of(order: str) -> onnx.ModelProto:
    """A GELU in one order of its operands."""
    return graph(ORDERS[order], constants=CONSTANTS, header=opset(17))


def fires(model: onnx.ModelProto) -> bool:
    """Whether the rule finds the one place."""
    return rewrite(model, gelu, check="none")[1].count("gelu") == 1


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", range(5))
def test_an_op_of_another_domain(order: str, place: int) -> None:
    """Sums, products and single nodes alike."""
    model = model_of(order)
    node = model.graph.node[place]
    node.domain = "my"
    assert not fires(model)
    (miss,) = explain(model, gelu)
    name = node.output[0]
    assert (miss.kind, miss.found, miss.at, miss.matched, miss.total) == ("domain", f"my::{node.op_type}", name, 4, 5)
    assert miss.reason.endswith(f"found my::{node.op_type} at {name!r} (domain my)")
    assert miss.change == f"change the domain of {name} to ai.onnx"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("name", "right"), [("sqrt2", "1.414213562"), ("one", "1"), ("half", "0.5")])
def test_another_constant(order: str, name: str, right: str) -> None:
    """The value that is told makes the rule fire."""
    model = model_of(order)
    tensor = next(item for item in model.graph.initializer if item.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(1.7, np.float32), name))
    assert not fires(model)
    (miss,) = explain(model, gelu)
    assert (miss.kind, miss.found, miss.change) == ("value", "1.7", f"set {name} to {right}")
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(float(right), np.float32), name))
    assert fires(model)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["d", "e", "a", "m"])
def test_a_use_outside(order: str, name: str) -> None:
    """The node that is told is the one to remove."""
    model = model_of(order)
    model.graph.node.add(op_type="Ceil", input=[name], output=["seen"], name="/dbg/Print")
    assert not fires(model)
    (miss,) = explain(model, gelu)
    assert (miss.kind, miss.at, miss.matched) == ("escape", name, 5)
    assert miss.change == f"remove the use of {name!r} by node /dbg/Print"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["e", "a"])
def test_another_op(order: str, name: str) -> None:
    """All above and below it fits."""
    model = model_of(order)
    node = next(item for item in model.graph.node if item.output[0] == name)
    node.op_type = "Floor"
    constant = "one" if name == "a" else ""
    node.input[:] = [item for item in node.input if item != constant]
    model.graph.node.add(op_type="Erf", input=["y"], output=["z"])
    model.graph.node.add(op_type="Add", input=["z", "z"], output=["zz"])
    (miss,) = explain(model, gelu)
    assert (miss.kind, miss.found, miss.matched, miss.change) == ("op", "Floor", 4, "")
    assert miss.reason == f"expected {'Erf' if name == 'e' else 'a sum'}, found Floor at {name!r}"


def test_a_node_that_is_missing() -> None:
    """No product with a half at all."""
    (miss,) = explain(graph(GELU.replace("y = Mul(m, half)", "y = Identity(m)"), constants=CONSTANTS), gelu)
    assert miss.reason == "expected the constant 0.5 in a product, found none"
    assert (miss.matched, miss.change) == (3, "")


def test_each_failure_that_a_search_reports_has_words() -> None:
    """No matcher reports a failure without words, and no words are left of a failure that none reports."""
    sources = [*Path(matcher.__file__).parent.rglob("*.py"), Path(furthest_failure.__file__)]
    reasons = re.compile(r'(?:fails\(|reason = )[^"\n]*"(\w+)"')
    found = {name for path in sources for name in reasons.findall(path.read_text("utf-8"))}
    assert found == set(furthest_failure.IN_WORDS)
