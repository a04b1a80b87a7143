"""Makes notebooks/models/tiny_distilbert.onnx, the small real export that the README's first command rewrites.

A DistilBERT for masked words (3 layers, hidden size 32, 400 words, random weights) from transformers, written by
torch's dynamo exporter at opset 18 with dynamic batch and sequence.  The exporter's metadata is kept; only the folder
in which the libraries lay on the machine that made it is cut from the stack traces.
Run `python -m tests.make_shipped_model`.
"""

from __future__ import annotations

import site
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import torch
import transformers
from transformers.activations import GELUActivation

PATH = Path(__file__).parent.parent / "notebooks" / "models" / "tiny_distilbert.onnx"
LAYERS = 3


class MaskedWords(torch.nn.Module):
    """Token ids int64 [batch, sequence] and a mask of the same shape to logits float32 [batch, sequence, 400]."""

    def __init__(self) -> None:
        super().__init__()
        size = {"dim": 32, "n_heads": 4, "hidden_dim": 64, "vocab_size": 400, "max_position_embeddings": 64}
        self.model = transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(**size, n_layers=LAYERS))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)[0]


def build() -> tuple[MaskedWords, tuple[torch.Tensor, torch.Tensor]]:
    """The model with seeded weights, and one set of inputs."""
    torch.manual_seed(0)
    model = MaskedWords().eval()
    return model, (torch.randint(1, 400, (2, 9)), torch.ones(2, 9, dtype=torch.int64))


def count_gelus() -> int:
    """GELU modules that run in one forward pass, counted by hooks: one in each layer and one in the head."""
    model, inputs = build()
    ran = 0

    def hook(*_: object) -> None:
        nonlocal ran
        ran += 1

    for module in model.modules():
        if isinstance(module, GELUActivation):
            module.register_forward_hook(hook)
    with torch.no_grad():
        model(*inputs)
    return ran


def make(path: Path = PATH) -> None:
    """Export the model to `path`."""
    model, inputs = build()
    dynamic = {0: "batch", 1: "sequence"}
    program = torch.onnx.export(
        model,
        inputs,
        dynamo=True,
        opset_version=18,
        input_names=["input_ids", "attention_mask"],
        output_names=["logits"],
        dynamic_shapes={"input_ids": dynamic, "attention_mask": dynamic},
        verbose=False,
    )
    proto = program.model_proto
    folders = [folder + "/" for folder in (*site.getsitepackages(), str(PATH.parent.parent.parent))]
    for entry in _metadata(proto):
        for folder in folders:
            entry.value = entry.value.replace(folder, "")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(proto.SerializeToString(deterministic=True))


def _metadata(proto: onnx.ModelProto) -> Iterator[onnx.StringStringEntryProto]:
    graph = proto.graph
    for owner in (proto, graph, *graph.node, *graph.initializer, *graph.value_info, *graph.input, *graph.output):
        yield from owner.metadata_props


if __name__ == "__main__":
    make()
    sys.stdout.write(f"{PATH.name}: {PATH.stat().st_size} bytes, {count_gelus()} GELUs\n")
