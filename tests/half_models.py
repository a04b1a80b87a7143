"""Models in ONNX text that tests of conversions are made of, and their results held against ONNX."""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

import surgeon
from surgeon.file.model import Model
from surgeon.precision.writing.type_check import type_errors
from surgeon.testing import parse

HEADER = '<ir_version: 9, opset_import: ["" : {opset}{more}]> g '
HEAD = "(float[N, 4] x) => (float[N, 4] y)"


def model(body, head=HEAD, opset=18, more="", weights="", functions=""):
    """A model from ONNX text."""
    return parse(f"{HEADER.format(opset=opset, more=more)}{head} {weights} {{ {body} }} {functions}")


def converted(made, **settings):
    """The model and the report, the result well typed, passed by the checker and loaded by ONNX Runtime."""
    result, report = surgeon.convert(made, **settings)
    onnx.checker.check_model(result, full_check=True)
    with Model.open(result) as opened:
        assert type_errors(opened) == []
    if settings.get("to", "float16") != "bfloat16":
        ort.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [name for node in result.graph.node for name in node.output]
    assert len(names) == len(set(names))
    return result, report


def ops(made):
    """The ops of the main graph in order."""
    return [node.op_type for node in made.graph.node]


def kept(report):
    """The ops that are kept, each with the kind of its reason."""
    return sorted((item.op, item.kind) for item in report.kept)


def planted(size=1e5):
    """A network with one activation of 1e5, scaled back by the node behind it."""
    body = "a = MatMul(x, w) b = Relu(a) c = Mul(b, big) d = Mul(c, small) e = Add(d, x) y = Tanh(e)"
    made = model(body)
    rng = np.random.default_rng(0)
    values = {"w": rng.normal(size=(4, 4)), "big": np.array(size), "small": np.array(1 / size)}
    tensors = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in values.items()]
    made.graph.initializer.extend(tensors)
    return made
