"""Attention whose mask is made as large as its scores: found, proved, and right at sizes of its own."""

import io

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from surgeon import rewrite
from tests import sampling

HEADS, WIDTH = 4, 32
WAYS = (("torchscript", 14), ("torchscript", 17), ("dynamo", 18))
SIZES = ((1, 1), (2, 7), (3, 9), (5, 4), (4, 4))
LOW = float("-inf")


def past_and_future(scores):
    """Which keys a row sees, as indices beside each other."""
    rows, keys = torch.arange(scores.shape[-2])[:, None], torch.arange(scores.shape[-1])[None]
    return torch.where(keys <= rows, 0.0, -1e9)


MASKS = {
    "full": lambda scores: torch.triu(torch.full((scores.shape[-2], scores.shape[-1]), LOW), 1),
    "ones_like": lambda scores: torch.triu(torch.ones_like(scores), 1) * -1e4,
    "arange": past_and_future,
    "size": lambda scores: torch.tril(torch.ones(scores.size(-2), scores.size(-1), dtype=torch.bool)),
    "new_full": lambda scores: scores.new_full(scores.shape[-2:], LOW).triu(1),
}


CASES = [(mask, *way) for mask in MASKS for way in WAYS]
SAMPLE = [(mask, *WAYS[at % len(WAYS)]) for at, mask in enumerate(MASKS)]


class Attention(nn.Module):
    """Attention of the rows of x to those of x, or of another tensor, under a mask that is asked of the scores."""

    def __init__(self, mask, scaled):
        super().__init__()
        self.mask, self.scaled = MASKS[mask], scaled
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, y):
        q, k, v = (
            part(rows).view(rows.shape[0], rows.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)
            for part, rows in ((self.q, x), (self.k, y), (self.v, y))
        )
        scores = q @ k.transpose(-1, -2)
        if self.scaled:
            scores = scores / (WIDTH // HEADS) ** 0.5
        mask = self.mask(scores)
        scores = scores.masked_fill(~mask, LOW) if mask.dtype == torch.bool else scores + mask
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape[0], x.shape[1], WIDTH))


def exported(module, exporter, opset):
    """The model, with batch, rows and keys free."""
    x, y, names = torch.randn(2, 5, WIDTH), torch.randn(2, 6, WIDTH), ["x", "y"]
    if exporter == "torchscript":
        file, axes = io.BytesIO(), {"x": {0: "batch", 1: "rows"}, "y": {0: "batch", 1: "keys"}}
        settings = {"opset_version": opset, "dynamo": False, "dynamic_axes": axes, "input_names": names}
        torch.onnx.export(module, (x, y), file, output_names=["found"], **settings)
        return onnx.load_from_string(file.getvalue())
    batch, rows, keys = (torch.export.Dim(name, min=1, max=512) for name in ("batch", "rows", "keys"))
    shapes = ({0: batch, 1: rows}, {0: batch, 1: keys})
    made = torch.onnx.export(
        module, (x, y), dynamo=True, opset_version=opset, dynamic_shapes=shapes, input_names=names, verbose=False
    )
    return made.model_proto


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("mask", "exporter", "opset"), sampling.chosen(lambda: SAMPLE, lambda: CASES))
def test_a_mask_as_large_as_the_scores(mask, exporter, opset):
    torch.manual_seed(0)
    module = Attention(mask, scaled=opset != 14).eval()
    before = exported(module, exporter, opset)
    after, report = rewrite(before, "transformers")
    assert report.proved, report.doubts
    found = [node for node in after.graph.node if "Attention" in node.op_type]
    assert len(found) == 1
    assert "Softmax" not in [node.op_type for node in after.graph.node]
    session = onnxruntime.InferenceSession(after.SerializeToString())
    for batch, rows in SIZES:
        for keys in (rows, rows + 3):
            x, y = torch.randn(batch, rows, WIDTH), torch.randn(batch, keys, WIDTH)
            with torch.no_grad():
                wanted = module(x, y).numpy()
            (got,) = session.run(None, {"x": x.numpy(), "y": y.numpy()})
            assert np.allclose(got, wanted, atol=2e-5), (batch, rows, keys)
