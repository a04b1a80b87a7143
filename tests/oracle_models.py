"""Mini-models and implementations that the tests of oracles share."""

import textwrap

import numpy as np
import onnx
import onnx.parser

from surgeon.runtime.sessions.oracle import open_oracle
from surgeon.runtime.sessions.ort_session import OrtSession
from tests.models import opset

DOMAINS = {"test.customop": 1, "trt.plugins": 1}
X = np.linspace(-3, 3, 7, dtype=np.float32)
GELU = onnx.parser.parse_function(
    """<domain: "rule", opset_import: ["" : 17]> gelu (x) => (y) {
    f = Constant<value_float = 1.4142135>()
    r = CastLike(f, x)
    g = Constant<value_float = 1.0>()
    one = CastLike(g, x)
    h = Constant<value_float = 0.5>()
    half = CastLike(h, x)
    a = Div(x, r)
    b = Erf(a)
    c = Add(b, one)
    d = Mul(x, half)
    y = Mul(d, c) }"""
)


def model(text, version=17, **names):
    """A mini-model from ONNX text without header, statements divided by semicolons; names of nodes by their output."""
    mini = onnx.parser.parse_model(opset(version, **DOMAINS) + text.replace(";", "\n"))
    for node in mini.graph.node:
        node.name = names.get(node.output[0], "")
    return mini


def answer(mini, feeds, custom_ops=(), bodies=None, limit=None):
    """The oracle's name, whether it is independent, and its answers."""
    with open_oracle(mini, custom_ops, bodies, limit=limit) as oracle:
        return oracle.name, oracle.is_independent, oracle.run(feeds)


def gelu(x, dtype=np.float64):
    with OrtSession(model("(float[n] x) => (float[n] y) { y = com.microsoft.Gelu(x) }")) as session:
        return session.run({"x": x.astype(np.float32)})["y"].astype(dtype)


def write(folder, body, name="ops", head="x, y, *, alpha=1.0"):
    """A file that implements test.customop::CustomOpOne."""
    path = folder / f"{name}.py"
    path.write_text(
        "import os, sys, time\nimport numpy as np\nfrom surgeon import implements\n\n"
        f'@implements("test.customop::CustomOpOne")\ndef one({head}):\n{textwrap.indent(body, "    ")}\n'
    )
    return path


CUSTOM = (
    "(float[n] x) => (float[n] y) { a = Neg(x); b = test.customop.CustomOpOne<alpha: float = 0.5>(x, a); y = Exp(b) }"
)
NAME = "Python implementation of test.customop::CustomOpOne"
