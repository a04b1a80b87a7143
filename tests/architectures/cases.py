"""The cases: architecture, exporter, opset and dtype, and the sample of them that runs by default."""

from __future__ import annotations

from dataclasses import dataclass

ARCHITECTURES = (
    "bert",
    "bert_loss",
    "distilbert",
    "gpt2",
    "llama",
    "qwen2",
    "qwen3",
    "gemma",
    "gemma2",
    "t5",
    "t5_gated",
    "vit",
    "dinov2",
    "clip",
    "convnext",
    "wav2vec2",
    "unet",
    "vae_decoder",
    "vae_encoder",
    "feature_classifier",
)
OPSETS = {"ts": (14, 17), "dynamo": (18, 20, 23)}
DTYPES = ("fp32", "fp16")


SAMPLE = (
    "bert-ts14-fp32",
    "bert_loss-ts14-fp32",
    "gpt2-ts14-fp16",
    "llama-ts14-fp32",
    "gemma2-ts17-fp16",
    "t5-ts17-fp32",
    "vit-dynamo18-fp16",
    "dinov2-dynamo20-fp32",
    "convnext-ts14-fp32",
    "wav2vec2-ts17-fp32",
    "unet-ts17-fp32",
    "vae_decoder-dynamo23-fp32",
    "feature_classifier-ts14-fp32",
)
"""The cases that run by default: each exporter, opset and dtype at least once, and one architecture of each kind."""


@dataclass(frozen=True)
class Case:
    """One export: `arch` of ARCHITECTURES, `exporter` "ts" or "dynamo", ONNX `opset`, `dtype` "fp32" or "fp16"."""

    arch: str
    exporter: str
    opset: int
    dtype: str

    @property
    def name(self) -> str:
        """For instance `bert-dynamo18-fp16`."""
        return f"{self.arch}-{self.exporter}{self.opset}-{self.dtype}"


def cases() -> tuple[Case, ...]:
    """Every combination of architecture, exporter, opset and dtype."""
    return tuple(
        Case(arch, exporter, opset, dtype)
        for arch in ARCHITECTURES
        for exporter, opsets in OPSETS.items()
        for opset in opsets
        for dtype in DTYPES
    )


def sample() -> tuple[Case, ...]:
    """The cases of SAMPLE, in its order."""
    by_name = {case.name: case for case in cases()}
    return tuple(by_name[name] for name in SAMPLE)
