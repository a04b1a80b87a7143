"""What rules ask of tensors inside local functions holds for each call: of another dtype, of another rank, nested."""

import pytest
from surgeon.patterns.activations.gelu import gelu_tanh, quick_gelu
from surgeon.patterns.activations.softmax import log_softmax

from surgeon import Graph, Tensor, rewrite, rule
from surgeon.testing import parse

TANH = """
    half = Constant<value = D {0.5}>()  one = Constant<value = D {1.0}>()  three = Constant<value = D {3.0}>()
    k = Constant<value = D {0.044715}>()  r = Constant<value = D {0.7978845608}>()
    c = Pow(x, three)  kc = Mul(k, c)  a = Add(x, kc)  s = Mul(r, a)  t = Tanh(s)  o = Add(t, one)  p = Mul(x, o)
    y = Mul(p, half)
"""
LOGS = "y = LogSoftmax<axis = -1>(x)"
QUICK = "k = Constant<value = D {1.702}>()  s = Mul(x, k)  q = Sigmoid(s)  y = Mul(x, q)"
NESTED = "y = local.inner(x)"
FUNCTION = '<domain: "local", opset_import: ["" : 18, "local" : 1]> '


# the rule, the target, the body, the types of the calls' inputs, and why it is spared (nothing where it is written)
CASES = {
    "floats": (gelu_tanh, "ort", TANH, ["float[n, 4]"], ""),
    "doubles": (gelu_tanh, "ort", TANH, ["double[n, 4]"], "too coarse for float64"),
    "quick, doubles": (quick_gelu, "ort", QUICK, ["double[n, 4]"], "too coarse for float64"),
    "one call has no axis": (gelu_tanh, "ort", TANH, ["float[n, 4]", "float"], "at least one axis"),
    "taken apart": (log_softmax, "decomposed", LOGS, ["float[n, 4]"], ""),
    "taken apart, doubles": (log_softmax, "decomposed", LOGS, ["double[n, 4]"], "LogSoftmax of float64"),
    "one call of two is of doubles": (
        log_softmax, "decomposed", LOGS, ["float[n, 4]", "double[n, 4]"], "LogSoftmax of float64",
    ),
    "two calls of floats": (log_softmax, "decomposed", LOGS, ["float[n, 4]", "float[m]"], ""),
    "nested, doubles": (log_softmax, "decomposed", NESTED, ["double[n, 4]"], "LogSoftmax of float64"),
    "nested, floats": (log_softmax, "decomposed", NESTED, ["float[n, 4]"], ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_call_is_asked(case: str) -> None:
    made, target, body, types, why = CASES[case]
    body = body.replace("D {", f"{types[0].split('[')[0]} {{")
    heads = [", ".join(f"{given} {letter}{place}" for place, given in enumerate(types)) for letter in "xy"]
    calls = " ".join(f"y{place} = local.f(x{place})" for place in range(len(types)))
    inner = f"{FUNCTION} inner (x) => (y) {{ {LOGS} }}" if body == NESTED else ""
    model = parse(
        f'<ir_version: 9, opset_import: ["" : 18, "local" : 1]> g ({heads[0]}) => ({heads[1]}) {{ {calls} }}'
        f"{FUNCTION} f (x) => (y) {{ {body} }} {inner}"
    )
    _, report = rewrite(model, rules=made, target=target, ep="cpu")
    assert report.counts == {made.name: 0 if why else 1}
    assert not why or any(why in str(miss) for miss in report.misses)


def shifted(g: Graph, x: Tensor, s: Tensor) -> Tensor:
    """x · s + s."""
    return g.add(g.mul(x, s), s)


@rule(patterns=[shifted], target="any")
def of_any_dtype(g: Graph, x: Tensor, s: Tensor) -> Tensor:
    """Write a node of which ONNX Runtime has no kernel for doubles, whatever it computes: nothing is proved here."""
    return g.instance_normalization(x, s, s)


@pytest.mark.parametrize(("dtypes", "count"), [(["float"], 1), (["double"], 0), (["float", "double"], 0)])
def test_each_call_has_a_kernel(dtypes: list[str], count: int) -> None:
    inputs = ", ".join(f"{dtype}[n, 2, 4] x{place}, {dtype}[2] s{place}" for place, dtype in enumerate(dtypes))
    outputs = ", ".join(f"{dtype}[n, 2, 4] y{place}" for place, dtype in enumerate(dtypes))
    calls = " ".join(f"y{place} = local.f(x{place}, s{place})" for place in range(len(dtypes)))
    model = parse(
        f'<ir_version: 9, opset_import: ["" : 18, "local" : 1]> g ({inputs}) => ({outputs}) {{ {calls} }}'
        f"{FUNCTION} f (x, s) => (y) {{ m = Mul(x, s)  y = Add(m, s) }}"
    )
    _, report = rewrite(model, rules=of_any_dtype, target="onnx", ep="cpu", check="none")
    assert report.counts == {"of_any_dtype": count}
