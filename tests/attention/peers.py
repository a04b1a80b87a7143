"""Other tools on the same models, as `tests.matrix.peers` runs them, with the options that find most attention."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnxruntime

from tests.attention.cases import BY_LIBRARIES, DECODERS, DECOYS, FORMS
from tests.matrix.peers import first_line, optimize_for_ort, quietly

MODEL_TYPES = {
    "gpt2": ("gpt2", "bert"),
    "vit": ("vit", "bert"),
    "clip": ("clip",),
    "t5": ("t5", "bart"),
    "bart": ("bart", "bert"),
    "whisper": ("bart",),
    "qwen3": ("qwen3", "gpt_neox"),
}
"""The types of ORT's Python optimizer that may suit a model, best first; "gpt_neox" for decoders with
rotary embeddings, "bert" for the rest."""
ROTARY_TYPES = ("gpt_neox",)
HEADS, WIDTHS = 4, {True: 64, False: 32}


@dataclass(frozen=True)
class Use:
    """How to call a peer: a type of model, the level of the optimizer before it, and the width of a model."""

    kind: str = ""
    level: int = 0
    width: int = 0


def ort_cpp(source: Path, output: Path, _: Use) -> None:
    """ONNX Runtime's own optimizer in C++ with all it has, saved."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(output)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def ort_python(source: Path, output: Path, use: Use) -> None:
    """onnxruntime.transformers.optimizer, told the number of heads and the width, which it asks its user for."""
    from onnxruntime.transformers.optimizer import optimize_model

    model = optimize_model(
        str(source), model_type=use.kind, num_heads=HEADS, hidden_size=use.width, opt_level=use.level
    )
    model.save_model_to_file(str(output))


def for_ort(source: Path, output: Path, _: Use) -> None:
    """onnxscript's fusions for ONNX Runtime."""
    optimize_for_ort(source, output)


PEERS = {"ORT C++ all": ort_cpp, "ORT Python": ort_python, "optimize_for_ort": for_ort}


def uses(peer: str, model: str) -> tuple[Use, ...]:
    """Ways to call a peer for a model; the one that finds most counts."""
    if peer != "ORT Python":
        return (Use(),)
    width = WIDTHS[model not in FORMS + BY_LIBRARIES + DECOYS]
    first, *others = MODEL_TYPES.get(model, ROTARY_TYPES if model in DECODERS else ("bert",))
    return (Use(first, 0, width), Use(first, 1, width), *(Use(kind, 0, width) for kind in others))


def run(peer: str, use: Use, source: Path, output: Path) -> str:
    """Let a peer write its model; the first line of what it raised, else nothing."""
    output.unlink(missing_ok=True)
    with quietly():
        try:
            PEERS[peer](source, output, use)
        except Exception as error:  # noqa: BLE001  a peer raises what it likes; it counts as broken
            return f"{type(error).__name__}: {first_line(error)}"
    return "" if output.exists() else "wrote no file"
