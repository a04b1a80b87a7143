"""Exports of decoders of transformers, with their caches as inputs and outputs."""

import copy
import inspect
import warnings
from pathlib import Path

import torch
from transformers.cache_utils import DynamicCache

from tests.decoders.architectures import VOCABULARY

EXPORTS = (("dynamo", 20), ("dynamo", 23), ("transformers", 20), ("dynamo", 18), ("torchscript", 17))
"""Exporters with opsets."""
FAILING = {
    ("falcon", "dynamo", 23): "torch 2.13 wants as many heads of keys as of queries for Attention",
    ("cohere", "torchscript", 17): "torch 2.13 takes the new and the past keys for tensors of different ranks",
}
"""Exports that fail, by architecture, exporter and opset."""


class Flat(torch.nn.Module):
    """A model whose cache is a list of tensors, as `torch.onnx.export` wants it."""

    def __init__(self, made: torch.nn.Module) -> None:
        super().__init__()
        self.made = made

    def forward(self, input_ids, attention_mask, position_ids, *past):
        """Scores, and the keys and values of each layer."""
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        known = {"attention_mask": attention_mask, "past_key_values": cache}
        if "position_ids" in inspect.signature(self.made.forward).parameters:
            known["position_ids"] = position_ids
        found = self.made(input_ids=input_ids, use_cache=True, **known)
        return found.logits, *(one for layer in found.past_key_values.layers for one in (layer.keys, layer.values))


def _inputs(made: torch.nn.Module) -> tuple[torch.Tensor, ...]:
    """Ids, mask, positions and pasts: two texts, three new tokens after four."""
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(3, VOCABULARY, (2, 7), generator=random)
    with torch.no_grad():
        cache = made(ids[:, :4], past_key_values=DynamicCache(), use_cache=True).past_key_values
    pasts = [one.clone() for layer in cache.layers for one in (layer.keys, layer.values)]
    return ids[:, 4:].contiguous(), torch.ones(2, 7, dtype=torch.int64), torch.arange(4, 7).repeat(2, 1), *pasts


def export(made: torch.nn.Module, exporter: str, opset: int, path: Path, fusions: str | None = None) -> None:
    """Write a model.

    exporter: "dynamo" or "torchscript" of torch, or "transformers".  fusions: `ort_fusions` of transformers.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        inputs = _inputs(made)
        if exporter == "transformers":
            _export_with_transformers(made, inputs, opset, path, fusions)
        else:
            _export_with_torch(made, inputs, opset, path, exporter == "dynamo")


def _export_with_transformers(
    made: torch.nn.Module, inputs: tuple[torch.Tensor, ...], opset: int, path: Path, fusions: str | None
) -> None:
    import onnx_ir
    from transformers.exporters import OnnxConfig, OnnxExporter

    ids, mask, positions, *pasts = inputs
    cache = DynamicCache(list(zip(pasts[::2], pasts[1::2], strict=True)))
    known = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "past_key_values": cache}
    settings = OnnxConfig(dynamic=True, opset_version=opset, ort_fusions=fusions)
    program = OnnxExporter().export(copy.deepcopy(made), known, settings).program
    onnx_ir.save(getattr(program, "model", program), path, external_data=f"{path.name}.data")


def _export_with_torch(
    made: torch.nn.Module, inputs: tuple[torch.Tensor, ...], opset: int, path: Path, dynamo: bool
) -> None:
    count = len(inputs) - 3
    kinds = [f"{layer}.{kind}" for layer in range(count // 2) for kind in ("key", "value")]
    pasts, presents = ([f"{side}.{kind}" for kind in kinds] for side in ("past_key_values", "present"))
    names = ["input_ids", "attention_mask", "position_ids", *pasts]
    if dynamo:
        any_size = torch.export.Dim.DYNAMIC
        sizes = (*({0: any_size, 1: any_size},) * 3, tuple({0: any_size, 2: any_size} for _ in pasts))
        how = {"dynamic_shapes": sizes, "verbose": False}
    else:
        axes = {name: {0: "batch", 1: "rows"} for name in ("input_ids", "position_ids", "logits")}
        axes |= {"attention_mask": {0: "batch", 1: "total"}} | {name: {0: "batch", 2: "past"} for name in pasts}
        how = {"dynamic_axes": axes | {name: {0: "batch", 2: "total"} for name in presents}}
    known = {"input_names": names, "output_names": ["logits", *presents], "opset_version": opset, "dynamo": dynamo}
    torch.onnx.export(Flat(made).eval(), inputs, path, **known, **how)
