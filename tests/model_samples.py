"""Models with large tensors in every place, and what tests of files share."""

import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from surgeon.file.model import Address, Model
from surgeon.file.patch import Patch

GRAPH: Address = ((7, 0),)
WEIGHTS = np.random.default_rng(0).standard_normal(5000).astype(np.float32)


def tensor(name: str, count: int = 600) -> TensorProto:
    """A float tensor of `count` different elements."""
    return numpy_helper.from_array(np.arange(count, dtype=np.float32) + len(name), name)


def sparse(name: str) -> onnx.SparseTensorProto:
    """600 values at the even positions of 1200."""
    return helper.make_sparse_tensor(tensor(name), numpy_helper.from_array(np.arange(0, 1200, 2), name + "i"), [1200])


def everywhere() -> onnx.ModelProto:
    """A model with large tensors in every place that ONNX has for them."""
    constant = helper.make_node("Constant", [], ["c"], value=tensor("deep"))
    inner = helper.make_graph([constant], "inner", [], [], [tensor("body")])
    attributes = helper.make_node("Odd", ["x"], ["y"], domain="my", then=inner, t=tensor("t"), s=sparse("st"))
    attributes.attribute.append(helper.make_attribute("ts", [tensor("ts0"), tensor("ts1")]))
    attributes.attribute.append(helper.make_attribute("gs", [inner, inner]))
    attributes.attribute.append(helper.make_attribute("sts", [sparse("sts0")]))
    graph = helper.make_graph([attributes], "g", [], [], [tensor("w"), tensor("small", 3)])
    graph.sparse_initializer.append(sparse("sw"))
    function = helper.make_function("my", "F", ["a"], ["b"], [helper.make_node("C", [], ["b"], value=tensor("f"))], [])
    function.attribute_proto.append(helper.make_attribute("default", tensor("fa")))
    model = helper.make_model(graph, functions=[function])
    info = model.training_info.add()
    info.initialization.initializer.append(tensor("ti"))
    info.algorithm.initializer.append(tensor("ta"))
    return model


def reference(one: TensorProto) -> Any:
    """What onnx itself makes of a tensor, but strings keep the zero bytes at their end, which numpy drops."""
    if one.data_type != TensorProto.STRING:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return numpy_helper.to_array(one)
    flat = np.empty(len(one.string_data), object)
    flat[:] = [item.decode() for item in one.string_data]
    return flat.reshape(tuple(one.dims))


def same(one: Any, other: Any) -> bool:
    """Equal dtype, shape and bits (strings: elements)."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return bool((one == other).all()) if one.dtype == object else one.tobytes() == other.tobytes()


def external(path: Path, location: str = "w.data", *, write: bool = True, **entries: Any) -> Path:
    """A model with WEIGHTS and a scalar in one data file."""
    tensors = []
    for name, dims, offset, length in (("w", [5000], 0, 20000), ("s", [], 20000, 4)):
        one = TensorProto(name=name, data_type=1, dims=dims, data_location=TensorProto.EXTERNAL)
        for key, value in ({"location": location, "offset": offset, "length": length} | entries).items():
            one.external_data.add(key=key, value=str(value))
        tensors.append(one)
    path.parent.mkdir(exist_ok=True)
    graph = helper.make_graph([onnx.NodeProto(name="n", op_type="Relu")], "g", [], [], tensors)
    onnx.save(helper.make_model(graph), path)
    if write:
        (path.parent / location).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / location).write_bytes(WEIGHTS.tobytes() + np.float32(2.5).tobytes())
    return path


def renamed(model: Model, name: bytes = b"renamed") -> Patch:
    """A patch that names the graph."""
    patch = Patch(model)
    patch.replace(GRAPH, 2, 0, [name])
    return patch


def files_in(folder: Path) -> set[str]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def open_files(folder: Path) -> list[str]:
    """The files below a folder that this process has open, mapped ones too; Linux alone tells."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(path for path in found if path.startswith(f"{folder}{os.sep}"))
