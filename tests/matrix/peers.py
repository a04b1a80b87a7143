"""Other tools on the same models, in their default use: what they write, and whether it still answers the same.

Each peer reads a file and writes a file.  A crash, a file that ONNX Runtime does not open, or other numbers than the
original's is "broken".  None has been seen to take the process down or to hang, so they run in it; each under the same
comparison as our own output.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import onnx
import onnxruntime

from surgeon.versions import versions as installed


def ort_extended(source: Path, output: Path) -> None:
    """ONNX Runtime's own optimizer in C++ at the level "extended", saved."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(output)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def ort_python(source: Path, output: Path) -> None:
    """onnxruntime.transformers.optimizer for BERT, graph fusions only."""
    from onnxruntime.transformers.optimizer import optimize_model

    model = optimize_model(str(source), model_type="bert", num_heads=0, hidden_size=0, opt_level=0)
    model.save_model_to_file(str(output))


def optimize_for_ort(source: Path, output: Path) -> None:
    """onnxscript's fusions for ONNX Runtime."""
    from onnxscript import ir
    from onnxscript.rewriter import ort_fusions

    found = ort_fusions.optimize_for_ort(ir.load(str(source)))
    ir.save(found[0] if isinstance(found, tuple) else found, str(output))


PEERS: dict[str, Callable[[Path, Path], None]] = {
    "ORT C++ extended": ort_extended,
    "ORT Python": ort_python,
    "optimize_for_ort": optimize_for_ort,
}


def versions() -> str:
    """The libraries that the table depends on, with their versions."""
    found = {**installed(), **{name: metadata.version(name) for name in ("torch", "onnxscript")}}
    return ", ".join(f"{name} {found[name]}" for name in ("torch", "onnx", "onnxruntime", "onnxscript"))


def run(peer: str, source: Path, output: Path) -> str:
    """Let a peer write its model; the first line of what it raised, else nothing."""
    output.unlink(missing_ok=True)
    with quietly():
        try:
            PEERS[peer](source, output)
        except Exception as error:  # noqa: BLE001  a peer raises what it likes; it counts as broken
            return f"{type(error).__name__}: {first_line(error)}"
    return "" if output.exists() else "wrote no file"


def first_line(error: Exception) -> str:
    """What an error says in one line, without the name of the file."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return re.sub(r"(?:Load model from )?\S+\.onnx(?: failed:)?", "", lines[0] if lines else "").strip()[:160]


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without the peers' logging and printing."""
    logging.disable(logging.CRITICAL)
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            yield
    finally:
        logging.disable(logging.NOTSET)


def opens(path: Path) -> str:
    """Why ONNX Runtime does not open the model, optimizations off; nothing where it does."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  ORT has a class of its own for each kind of failure
        return first_line(error)
    return ""


def nodes_of(path: Path) -> list[onnx.NodeProto]:
    """The nodes of the main graph and of its local functions."""
    model = onnx.load(path)
    return [*model.graph.node, *(node for function in model.functions for node in function.node)]
