"""torch.nn.MultiheadAttention, which has rows before the batch inside, by each exporter: no transpose is left."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import surgeon
from tests import sampling

BATCH, ROWS, KEYS, WIDTH = 2, 5, 7, 32
ATTENTIONS = ("Attention", "MultiHeadAttention")
TS, OLD, NEW = ("ts", 17), ("dynamo", 18), ("dynamo", 23)
CASES = [
    ("encoder", OLD), ("own", NEW), ("padded", OLD), ("decoder", TS),
    ("encoder", TS), ("encoder", NEW), ("decoder", OLD), ("decoder", NEW), ("own", OLD), ("own", TS), ("weights", TS),
    ("weights", OLD), ("padded", TS), ("crossed", TS), ("crossed", OLD), ("crossed", NEW),
]  # fmt: skip
SAMPLE = 4  # of these, the first, which are unlike in module, exporter and opset


def module_of(kind):
    """A module and its inputs."""
    import torch

    class Layer(torch.nn.Module):
        """torch's attention, asked in one of its ways."""

        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True)

        def forward(self, *inputs):
            x, other = inputs[0], inputs[-1]
            if kind == "crossed":
                return self.attention(x, other, other, need_weights=False)[0]
            options = {"need_weights": kind != "own", "key_padding_mask": other if kind == "padded" else None}
            return self.attention(x, x, x, **options)[0]

    class Call(torch.nn.Module):
        """A layer behind a call, without which torch's fast path would be exported as one op that no exporter knows."""

        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, *inputs):
            return self.layer(*inputs)

    torch.manual_seed(0)
    x, y = torch.randn(BATCH, ROWS, WIDTH), torch.randn(BATCH, KEYS, WIDTH)
    if kind == "encoder":
        return Call(torch.nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True)), (x,)
    if kind == "decoder":
        return Call(torch.nn.TransformerDecoderLayer(WIDTH, 4, 64, batch_first=True)), (x, y)
    inputs = {"padded": (x, torch.arange(ROWS).expand(BATCH, ROWS) > 3), "crossed": (x, y)}
    return Layer(), inputs.get(kind, (x,))


def exported(kind, exporter, opset, path):
    import torch

    module, inputs = module_of(kind)
    names = ["x", "y"][: len(inputs)]
    if exporter == "ts":
        options = {"dynamo": False, "dynamic_axes": {name: {0: "b"} for name in names}}
    else:
        batch, rows, keys = (torch.export.Dim(name, max=64) for name in "bst")
        axes = ({0: batch, 1: rows}, {0: batch, 1: rows if kind == "padded" else keys})[: len(inputs)]
        options = {"dynamo": True, "external_data": False, "verbose": False, "dynamic_shapes": (axes,)}
    torch.onnx.export(module.eval(), inputs, str(path), opset_version=opset, input_names=names, **options)
    return [one.numpy() for one in inputs]


@pytest.mark.parametrize(
    ("kind", "made_by"), sampling.chosen(lambda: CASES[:SAMPLE], lambda: CASES), ids=lambda one: str(one)
)
def test_no_transpose_is_left(kind, made_by, tmp_path):
    inputs = exported(kind, *made_by, tmp_path / "in.onnx")
    path, report = surgeon.rewrite(tmp_path / "in.onnx", "ort", output=tmp_path / "out.onnx", check="both")
    counts = Counter(node.op_type for node in onnx.load(path).graph.node)
    wanted = 2 if kind == "decoder" else 1
    assert (counts["Transpose"], counts["Softmax"], sum(counts[op] for op in ATTENTIONS)) == (0, 0, wanted)
    assert report.outcome == "proved"
    before, after = (
        session.run(None, dict(zip((one.name for one in session.get_inputs()), inputs, strict=True)))[0]
        for session in map(ort.InferenceSession, (str(tmp_path / "in.onnx"), str(path)))
    )
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)
