"""The torch side of the real exports: small models with random weights, the count of GELUs that ran, the two exporters.

Loaded only when an export is made, as it imports torch and transformers.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers import activations

HIDDEN, LAYERS, VOCAB, LENGTH = 32, 3, 99, 7
TYPES = {"fp32": torch.float32, "fp16": torch.float16}
EAGER_BELOW = 14
"""The TorchScript exporter has scaled_dot_product_attention from this opset; below, attention is written out."""


class QuickGELU(nn.Module):
    """x · sigmoid(1.702 x), as in OpenAI's CLIP."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(1.702 * x)


class Functional(nn.Module):
    """Both forms of aten::gelu called as functions, which no module hook sees."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(nn.functional.gelu(x) * 3, approximate="tanh")


class FirstOutput(nn.Module):
    """The first output of a transformers model, called with its inputs by name."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        named = dict(zip(self.names, inputs, strict=True))
        return self.model(**named, return_dict=False)[0]


def _stack(*activation: nn.Module) -> nn.Module:
    layers = [layer for act in activation for layer in (nn.Linear(HIDDEN, HIDDEN), act)]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, HIDDEN))


PLAIN: dict[str, Callable[[], nn.Module]] = {
    "nn_gelu": lambda: _stack(nn.GELU(), nn.GELU()),
    "nn_gelu_tanh": lambda: _stack(nn.GELU("tanh"), nn.GELU("tanh")),
    "hand_quick": lambda: _stack(QuickGELU(), QuickGELU()),
    "functional": lambda: _stack(Functional()),
    "all_kinds": lambda: _stack(nn.GELU(), nn.GELU("tanh"), QuickGELU(), nn.GELU()),
}
BERT_ACTIVATIONS = {
    "bert": "gelu",
    "bert_python": "gelu_python",
    "bert_new": "gelu_new",
    "bert_fast": "gelu_fast",
    "bert_accurate": "gelu_accurate",
    "bert_pytorch_tanh": "gelu_pytorch_tanh",
}


def build(arch: str, dtype: str, attention: str = "sdpa") -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A model in evaluation mode with seeded random weights, and its inputs by name."""
    torch.manual_seed(0)
    if arch in PLAIN:
        model, inputs = PLAIN[arch](), {"x": torch.randn(2, 5, HIDDEN)}
    else:
        inner, inputs = _transformer(arch, attention)
        model = FirstOutput(inner, tuple(inputs))
    kind = TYPES[dtype]
    inputs = {name: x.to(kind) if x.is_floating_point() else x for name, x in inputs.items()}
    return model.eval().to(kind), inputs


def _transformer(arch: str, attention: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    size = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 4}
    size["intermediate_size"] = 2 * HIDDEN
    text = {
        "input_ids": torch.randint(1, VOCAB, (2, LENGTH)),
        "attention_mask": torch.ones(2, LENGTH, dtype=torch.int64),
    }
    image = {"pixel_values": torch.randn(2, 3, 16, 16)}
    words = {"vocab_size": VOCAB, "max_position_embeddings": 32, "attn_implementation": attention}
    patches = {"image_size": 16, "patch_size": 4, "attn_implementation": attention}
    if arch in BERT_ACTIVATIONS:
        bert = transformers.BertConfig(**size, **words, hidden_act=BERT_ACTIVATIONS[arch])
        return transformers.BertForMaskedLM(bert), text
    if arch == "distilbert":
        distil = transformers.DistilBertConfig(**words, dim=HIDDEN, n_layers=LAYERS, n_heads=4, hidden_dim=2 * HIDDEN)
        return transformers.DistilBertForMaskedLM(distil), text
    if arch == "gpt2":
        del words["max_position_embeddings"]
        sizes = {"n_embd": HIDDEN, "n_layer": LAYERS, "n_head": 4, "n_positions": 32}
        gpt2 = transformers.GPT2Config(**words, **sizes, use_cache=False, bos_token_id=97, eos_token_id=98)
        return transformers.GPT2LMHeadModel(gpt2), text
    if arch == "vit":
        return transformers.ViTModel(transformers.ViTConfig(**size, **patches)), image
    if arch == "clip_text":
        clip = transformers.CLIPTextConfig(**size, **words, bos_token_id=97, eos_token_id=98, pad_token_id=0)
        return transformers.CLIPTextModel(clip), text
    if arch == "clip_vision":
        return transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**size, **patches)), image
    raise ValueError(f"{arch} is not one of the architectures")


def _kind(module: nn.Module) -> str | None:
    if isinstance(module, nn.GELU):
        return "tanh" if module.approximate == "tanh" else "exact"
    if isinstance(module, activations.GELUActivation):
        return "exact"
    if isinstance(module, (activations.QuickGELUActivation, QuickGELU)):
        return "quick"
    tanh = (
        activations.NewGELUActivation,
        activations.FastGELUActivation,
        activations.AccurateGELUActivation,
        activations.GELUTanh,
    )
    return "tanh" if isinstance(module, tanh) else None


class _Gelus(TorchFunctionMode):
    """Counts modules by hooks, and calls of aten::gelu inside or outside of those modules."""

    def __init__(self) -> None:
        super().__init__()
        self.ran = dict.fromkeys(("exact", "tanh", "quick"), 0)
        self.aten = dict(self.ran)
        self.inside = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is nn.functional.gelu:
            kind = "tanh" if kwargs.get("approximate", "none") == "tanh" else "exact"
            self.aten[kind] += 1
            self.ran[kind] += not self.inside
        return func(*args, **kwargs)

    def enter(self, kind: str) -> None:
        self.ran[kind] += 1
        self.inside += 1

    def leave(self) -> None:
        self.inside -= 1


def count(arch: str, dtype: str) -> tuple[dict[str, int], dict[str, int]]:
    """One forward pass: GELUs that ran per kind, and those of them that were one call of aten::gelu."""
    model, inputs = build(arch, dtype)
    gelus = _Gelus()
    for module in model.modules():
        if kind := _kind(module):
            module.register_forward_pre_hook(lambda *_, kind=kind: gelus.enter(kind))
            module.register_forward_hook(lambda *_: gelus.leave())
    with torch.no_grad(), gelus:
        model(*inputs.values())
    return gelus.ran, gelus.aten


def export(arch: str, exporter: str, opset: int, dtype: str, path: Path) -> None:
    """Write the model as ONNX, with batch (and sequence, for text) dynamic; `exporter` is "ts" or "dynamo"."""
    eager = exporter == "ts" and opset < EAGER_BELOW
    model, inputs = build(arch, dtype, "eager" if eager else "sdpa")
    axes = {name: {0: "batch", 1: "sequence"} if x.dtype == torch.int64 else {0: "batch"} for name, x in inputs.items()}
    common: dict[str, Any] = {"opset_version": opset, "input_names": list(inputs), "output_names": ["y"]}
    if exporter == "ts":
        common |= {"dynamo": False, "dynamic_axes": axes}
    else:
        shapes = tuple(dict.fromkeys(dims, torch.export.Dim.DYNAMIC) for dims in axes.values())
        wrapped = shapes if arch in PLAIN else (shapes,)  # *inputs is one parameter
        common |= {"dynamo": True, "dynamic_shapes": wrapped, "external_data": False, "verbose": False}
    with _quiet():
        torch.onnx.export(model, tuple(inputs.values()), str(path), **common)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporters' warnings and progress; their exceptions come through."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
