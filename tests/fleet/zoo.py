"""Zoos of models: whole ones in variants, broken ones, ones that make a rule go wrong, large ones that are holes."""

import os
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import surgeon
from tests.command_line import ROOT
from tests.fleet.trouble import CRASH, HANG, MEMORY, RAISE

TROUBLE = Path(__file__).with_name("trouble.py")
RULES = f"gelu,{TROUBLE}"
DISTILBERT = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"


def save(nodes, initializers, path, *, width=4, location=None):
    """A model from x to y as a file."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name in "xy")
    graph = helper.make_graph(nodes, path.stem, [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


def number(name, value):
    return numpy_helper.from_array(np.array(value, np.float32), name)


def gelus(path, count=1, width=4, weight=None):
    """So many GELUs in a row, each behind a product with a matrix, whose numbers tell one model from another."""
    nodes, constants, at = [], [number("sqrt2", 2**0.5), number("one", 1), number("half", 0.5)], "x"
    made = np.random.default_rng(len(path.name) + count + width)
    for place in range(count):
        to = "y" if place == count - 1 else f"g{place}"
        matrix = made.normal(size=(width, width)).astype(np.float32) if weight is None else weight
        constants.append(numpy_helper.from_array(matrix, f"w{place}"))
        names = [f"{letter}{place}" for letter in "pdeam"]
        nodes += [
            helper.make_node("MatMul", [at, f"w{place}"], [names[0]]),
            helper.make_node("Div", [names[0], "sqrt2"], [names[1]]),
            helper.make_node("Erf", [names[1]], [names[2]]),
            helper.make_node("Add", [names[2], "one"], [names[3]]),
            helper.make_node("Mul", [names[0], names[3]], [names[4]]),
            helper.make_node("Mul", [names[4], "half"], [to]),
        ]
        at = to
    return save(nodes, constants, path, width=width)


def ample_time(folder):
    """Seconds by the clock that a sound model does not take on this machine, as busy as it is, for a test of hangs."""
    model = gelus(folder / "sound" / "model.onnx")
    start = time.monotonic()
    surgeon.run_many(surgeon.Recipe([surgeon.Rules(RULES)]), str(model), to=folder / "sound" / "out")
    return max(6.0, 10 * (time.monotonic() - start))


def plain(path, op="Relu"):
    """Nothing that a rule fires on."""
    return save([helper.make_node(op, ["x"], ["y"])], [], path)


def troubled(path, what):
    """A model on which a rule of `trouble` goes wrong."""
    nodes = [helper.make_node("Add", ["x", "c"], ["s"]), helper.make_node("Neg", ["s"], ["y"])]
    return save(nodes, [number("c", what)], path)


def sparse(path, size=1 << 31, *, fires=False, location=None):
    """A model whose table of so many bytes is a hole in a data file."""
    location = location or f"{path.stem}.weights"
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[size // 16, 4], data_location=1)
    for key, value in (("location", location), ("offset", "0"), ("length", str(size // 16 * 16))):
        table.external_data.add(key=key, value=value)
    gelus(path, 1)
    model = onnx.load(path)
    nodes = list(model.graph.node) if fires else [helper.make_node("Relu", ["x"], ["y"])]
    nodes.append(helper.make_node("Gather", ["table", "i"], ["t"]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(table)
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, 1], np.int64), "i"))
    model.graph.output.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, [2, 4]))
    onnx.save(model, path)
    with open(path.parent / location, "wb") as file:
        os.truncate(file.fileno(), size)
    return path


def broken(path, kind):
    """A file that is no model, in one of several ways."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = ("text", "empty", "cut", "dangling", "without data")
    kind = kinds[kind % len(kinds)] if isinstance(kind, int) else kind
    if kind == "text":
        path.write_text("version https://git-lfs.github.com/spec/v1\n", encoding="utf-8")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "cut":
        path.write_bytes(gelus(path, 2).read_bytes()[:-37])
    elif kind == "dangling":
        save([helper.make_node("Relu", ["nothing"], ["y"])], [], path)
    else:
        sparse(path, 1 << 12)
        (path.parent / f"{path.stem}.weights").unlink()
    return path


def small_zoo(root):
    """A dozen models of all kinds but those that take long."""
    for count in (1, 2, 3):
        gelus(root / "a" / f"g{count}.onnx", count)
    plain(root / "b" / "relu.onnx")
    sparse(root / "b" / "large.onnx", 1 << 26, fires=True)
    broken(root / "bad" / "text.onnx", "text")
    broken(root / "bad" / "lost.onnx", "without data")
    troubled(root / "bad" / "crash.onnx", CRASH)
    troubled(root / "bad" / "defect.onnx", RAISE)
    return root


EXPECTED = {
    "a/g1.onnx": "proved",
    "a/g2.onnx": "proved",
    "a/g3.onnx": "proved",
    "b/relu.onnx": "unchanged",
    "b/large.onnx": "proved",
    "bad/text.onnx": "refused",
    "bad/lost.onnx": "refused",
    "bad/crash.onnx": "crashed",
    "bad/defect.onnx": "refused",
}
"""What the models of the small zoo come to."""
WAYS = {"hang": HANG, "crash": CRASH, "memory": MEMORY, "raise": RAISE}
