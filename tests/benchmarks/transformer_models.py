"""BERT-base and GPT-2 as transformers builds them, with random weights and a short vocabulary, as ONNX.

Twelve layers of 768, twelve heads, batch and sequence free, an attention mask, sdpa: what a person exports today.
Exports are kept in the cache folder under a key of the library versions and of this file.
Run as `python -m tests.benchmarks.transformer_models NAME PATH` in a new process, because torch is large.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LAYERS, HIDDEN, HEADS, VOCABULARY, LONGEST = 12, 768, 12, 1000, 512
LIBRARIES = ("torch", "transformers", "diffusers", "onnx", "onnxscript")
EXPORTERS = {"dynamo18": ("dynamo", 18), "ts17": ("torchscript", 17)}
NAMES = tuple(f"{arch}-{exporter}" for arch in ("bert", "gpt2") for exporter in EXPORTERS)


def exported(name: str, module: str = "tests.benchmarks.transformer_models") -> Path:
    """The file that `python -m MODULE NAME PATH` writes, such as that of `bert-dynamo18`; made on first use."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surgeon-benchmarks-transformers"
    key = hashlib.sha256((HERE / f"{module.rpartition('.')[2]}.py").read_bytes()).hexdigest()[:8]
    folder = base / "-".join([*(f"{library}{metadata.version(library)}" for library in LIBRARIES), key])
    path = folder / f"{name}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{os.getpid()}-{path.name}"
        subprocess.run((sys.executable, "-m", module, name, str(partial)), check=True)
        partial.replace(path)
    return path


def build(arch: str) -> Any:
    """A transformers model in evaluation mode: `bert` (BertModel) or `gpt2` (GPT2Model)."""
    import torch
    import transformers

    torch.manual_seed(0)
    if arch == "bert":
        size = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
        bert = transformers.BertConfig(**size, vocab_size=VOCABULARY, max_position_embeddings=LONGEST)
        return transformers.BertModel(bert, add_pooling_layer=False).eval()
    gpt2 = transformers.GPT2Config(
        n_layer=LAYERS, n_embd=HIDDEN, n_head=HEADS, vocab_size=VOCABULARY, n_positions=LONGEST, use_cache=False
    )
    return transformers.GPT2Model(gpt2).eval()


def write(name: str, path: Path) -> None:
    """Export one of NAMES: inputs `input_ids` and `attention_mask`, int64 [batch, sequence]."""
    import torch

    from tests.torch_models import FirstOutput

    arch, _, how = name.partition("-")
    inputs = {"input_ids": torch.randint(1, VOCABULARY, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    axes = {key: {0: "batch", 1: "sequence"} for key in inputs}
    export(FirstOutput(build(arch), tuple(inputs)), inputs, axes, path, EXPORTERS[how])


def export(module: Any, inputs: dict[str, Any], axes: Any, path: Path, how: tuple[str, int] = ("dynamo", 20)) -> None:
    """Export a module with its inputs by position, and their free axes by name; its first output is named `y`."""
    import torch

    from tests.matrix.torch_export import quiet

    exporter, opset = how
    options: dict[str, Any] = {"opset_version": opset, "input_names": list(inputs), "output_names": ["y"]}
    if exporter == "torchscript":
        options |= {"dynamo": False, "dynamic_axes": axes}
    else:
        dynamic = {"dynamic_shapes": (tuple(axes.values()),), "external_data": False}
        options |= {"dynamo": True, "verbose": False, **dynamic}
    with quiet():
        torch.onnx.export(module, tuple(inputs.values()), str(path), **options)


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
