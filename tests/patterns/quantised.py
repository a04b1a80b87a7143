"""Models as onnxruntime.quantization.quantize_dynamic leaves them, with the weights of small float models."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from surgeon.testing import parse

HEAD = "(float[n, 3, 8] x) => (float[n, 3, 6] y)"
_random = np.random.default_rng(0)
WEIGHTS = {
    "w": _random.normal(size=(8, 6)).astype(np.float32),
    "v": _random.normal(size=(8, 6)).astype(np.float32),
    "t": _random.normal(size=(6, 8)).astype(np.float32),
    "batched": _random.normal(size=(2, 8, 6)).astype(np.float32),
    "b": _random.normal(size=6).astype(np.float32),
}


def quantised(
    body: str, head: str = HEAD, *, per_channel: bool = False, signed: bool = False, constant_only: bool = True
) -> onnx.ModelProto:
    """A float model over WEIGHTS, its products quantised.

    per_channel: a scale for each column.  signed: weights as int8.  constant_only: products of two computed tensors
    stay.
    """
    model = parse(f"{head} {{ {body} }}")
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in WEIGHTS.items() if key in read)
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "float.onnx"), Path(folder, "quantised.onnx")
        onnx.save(model, source)
        quantize_dynamic(
            source,
            made,
            per_channel=per_channel,
            weight_type=QuantType.QInt8 if signed else QuantType.QUInt8,
            extra_options={"MatMulConstBOnly": constant_only},
        )
        found: onnx.ModelProto = onnx.load(made)
    return found
