"""`python -m tests.gate FOLDER [--opset N] [--torchscript] [--facts FILE]`: twenty small networks with random weights.

It exports them and, with --facts, writes the facts of the gate about them.  `nox -s facts` does so for each release of
torch in a separate environment.
"""

import argparse
import logging
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import surgeon

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99}
SHORT = {**SMALL, "max_position_embeddings": 64}


class FirstOutput(nn.Module):
    """The first output of a network of transformers."""

    def __init__(self, inner: nn.Module, *names: str) -> None:
        super().__init__()
        self.inner, self.names = inner, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.inner(**dict(zip(self.names, inputs, strict=True)), return_dict=False)[0]


class Gated(nn.Module):
    """SwiGLU after an RMS norm, as in a layer of a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.gate, self.up, self.down = nn.RMSNorm(32), *(nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Heads(nn.Module):
    """Attention by scaled_dot_product_attention, with a residual and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(32, 96), nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]
        mixed = nn.functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        return self.norm(x + self.out(mixed))


def _layers(*parts: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), *parts, nn.Linear(64, 32))


def _of_transformers(name: str, settings: dict[str, Any], *inputs: str) -> nn.Module:
    import transformers  # not at the top: slow, and not needed for plain networks

    config = getattr(transformers, f"{name}Config")(**settings)
    return FirstOutput(getattr(transformers, f"{name}Model")(config), *inputs)


def _text(name: str, **more: Any) -> nn.Module:
    return _of_transformers(name, {**SHORT, **more}, "input_ids", "attention_mask")


def _image(name: str, **settings: Any) -> nn.Module:
    return _of_transformers(name, settings, "pixel_values")


ROWS, IDS, IMAGE = "rows", "ids", "image"
VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32}
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 99, "max_position_embeddings": 64}
DECODER = {**SHORT, "num_key_value_heads": 2}
NETWORKS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "gelu": (ROWS, lambda: _layers(nn.GELU())),
    "gelu_tanh": (ROWS, lambda: _layers(nn.GELU(approximate="tanh"))),
    "norms": (ROWS, lambda: _layers(nn.LayerNorm(64), nn.Mish(), nn.LayerNorm(64))),
    "gated": (ROWS, Gated),
    "heads": (ROWS, Heads),
    "encoder": (ROWS, lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")),
    "convolutions": (IMAGE, lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Hardswish())),
    "bert": (IDS, lambda: _text("Bert")),
    "bert_wide": (IDS, lambda: _text("Bert", num_attention_heads=2, hidden_act="gelu_new")),
    "distilbert": (IDS, lambda: _text("DistilBert", **DISTIL)),
    "roberta": (IDS, lambda: _text("Roberta")),
    "electra": (IDS, lambda: _text("Electra", embedding_size=16)),
    "mpnet": (IDS, lambda: _text("MPNet")),
    "gpt2": (IDS, lambda: _text("GPT2", n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False)),
    "llama": (IDS, lambda: _text("Llama", **DECODER, use_cache=False)),
    "qwen3": (IDS, lambda: _text("Qwen3", **DECODER, head_dim=8, use_cache=False)),
    "vit": (IMAGE, lambda: _image("ViT", **VIT, patch_size=8)),
    "dinov2": (IMAGE, lambda: _image("Dinov2", **VIT, patch_size=8)),
    "convnext": (IMAGE, lambda: _image("ConvNext", hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1])),
    "resnet": (IMAGE, lambda: _image("ResNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])),
}


def inputs(kind: str) -> dict[str, tuple[torch.Tensor, dict[int, str]]]:
    """Example inputs of a network by name, each with its dynamic dims."""
    if kind == IDS:
        ids, mask = torch.randint(0, 99, (2, 7)), torch.ones(2, 7, dtype=torch.int64)
        dims = {0: "batch", 1: "sequence"}
        return {"input_ids": (ids, dims), "attention_mask": (mask, dims)}
    if kind == IMAGE:
        return {"pixel_values": (torch.randn(2, 3, 32, 32), {0: "batch"})}
    return {"x": (torch.randn(2, 7, 32), {0: "batch", 1: "sequence"})}


def export(name: str, path: Path, opset: int, *, torchscript: bool) -> None:
    """Export one network."""
    kind, make = NETWORKS[name]
    torch.manual_seed(0)
    named = inputs(kind)
    arguments = tuple(tensor for tensor, _ in named.values())
    settings: dict[str, Any] = {"opset_version": opset, "input_names": list(named), "output_names": ["out"]}
    if torchscript:
        settings |= {"dynamo": False, "dynamic_axes": {key: dims for key, (_, dims) in named.items()}}
    else:
        dynamic = [dict.fromkeys(dims, torch.export.Dim.DYNAMIC) for _, dims in named.values()]
        is_wrapped = kind != ROWS and isinstance(make(), FirstOutput)
        shapes: Any = (tuple(dynamic),) if is_wrapped else tuple(dynamic)
        settings |= {"dynamo": True, "dynamic_shapes": shapes, "verbose": False}
    torch.onnx.export(make().eval(), arguments, path, external_data=False, **settings)


def main() -> None:
    """Export the networks; those that fail are printed and left out."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--torchscript", action="store_true")
    parser.add_argument("--facts", type=Path, metavar="FILE")
    parser.add_argument("--only", nargs="*", default=list(NETWORKS), choices=NETWORKS, metavar="NETWORK")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for name in options.only:
        try:
            export(name, options.folder / f"{name}.onnx", options.opset, torchscript=options.torchscript)
        except Exception as error:  # noqa: BLE001 - the exporter raises what it likes
            print(f"{name}: {type(error).__name__}: {error}"[:400], file=sys.stderr)
    if options.facts is not None:
        made = options.folder / "facts.json"
        surgeon.gate(f"{options.folder}/*.onnx", baseline=made, update=True)
        shutil.copy(made, options.facts)


if __name__ == "__main__":
    main()
