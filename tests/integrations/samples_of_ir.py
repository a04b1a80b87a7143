"""Models of onnx_ir for tests: a chain of MatMul and Gelu, whose weights are given as tensors of any class."""

import numpy as np
import onnx_ir as ir

WIDTH = 32
WORDS = "MatMul Div Erf Add Mul Mul"


def weight(seed=0, width=WIDTH):
    return np.random.default_rng(seed).standard_normal((width, width)).astype(np.float32) / np.float32(width)


def chain(*weights, gelus=None, width=WIDTH):
    """A model `x @ w0 -> gelu -> @ w1 -> gelu ...`; `gelus`: how many of the products have a Gelu behind them."""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["n", width]))
    nodes, stored, now = [], [], x

    def add(op, *inputs, **attributes):
        made = ir.node(op, list(inputs), attributes, name=f"{op}_{len(nodes)}")
        made.outputs[0].name = f"{op}_{len(nodes)}_out"
        made.meta["origin"] = made.name
        nodes.append(made)
        return made.outputs[0]

    for place, tensor in enumerate(weights):
        kind, shape = ir.TensorType(tensor.dtype), ir.Shape([width, width])
        stored.append(ir.Value(name=f"w{place}", type=kind, shape=shape, const_value=tensor))
        product = now = add("MatMul", now, stored[-1])
        if gelus is None or place < gelus:
            root, one, half = (add("Constant", value=ir.tensor(np.float32(one))) for one in (2**0.5, 1, 0.5))
            scaled = add("Mul", product, add("Add", add("Erf", add("Div", product, root)), one))
            now = add("Mul", scaled, half)
    now.type, now.shape = x.type, x.shape
    graph = ir.Graph([x], [now], nodes=nodes, initializers=stored, opset_imports={"": 20}, name="chain")
    model = ir.Model(graph, ir_version=10, producer_name="a test")
    model.meta["note"] = ["of", "the", "user"]
    return model


def tensors(model):
    return {name: value.const_value for name, value in model.graph.initializers.items()}


def ops(model):
    return [node.op_type for node in model.graph]
