"""What a caller hands in, a path or a model in memory, as the file layer takes it."""

import os
from pathlib import Path
from typing import TypeAlias, cast

import onnx_graphsurgeon as gs
from onnx import ModelProto

from surgeon.errors import UsageError

ModelLike: TypeAlias = str | os.PathLike[str] | ModelProto | gs.Graph


def resolve_model(source: ModelLike) -> Path | ModelProto:
    """A path counts from the working folder of now; a gs.Graph is exported.

    Raises UsageError for what is no model, and where gs cannot export it.
    """
    if isinstance(source, gs.Graph):
        return exported(source)
    _require(source)
    return source if isinstance(source, ModelProto) else Path(os.path.abspath(source))


def exported(graph: gs.Graph) -> ModelProto:
    """A graph as gs writes it; the graph itself stays as it is.  Raises UsageError where gs cannot."""
    try:
        copied = graph.copy()
        kinds = {name: tensor.type for name, tensor in graph.tensors().items() if isinstance(tensor, gs.Variable)}
        for name, tensor in copied.tensors().items():
            if isinstance(tensor, gs.Variable):
                tensor.type = kinds[name]  # of a sequence, say, which a copy forgets
        return cast(ModelProto, gs.export_onnx(copied, do_type_check=False))
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f"gs cannot export this graph ({error}); give its outputs a dtype and a shape, or pass a path."
        ) from error


def model_name(source: ModelLike, unnamed: str = "") -> str:
    """What to call it: its path as it was given; `unnamed` for a model in memory."""
    _require(source)
    return unnamed if isinstance(source, (ModelProto, gs.Graph)) else os.fspath(source)


def is_in_memory(source: object) -> bool:
    """Whether a source is no path: what comes of it is handed back.  Raises UsageError for what is no model."""
    _require(source)
    return isinstance(source, (ModelProto, gs.Graph))


def _require(source: object) -> None:
    if not isinstance(source, (ModelProto, gs.Graph, str, os.PathLike)):
        raise UsageError(
            f"What was given as a model is of type {type(source).__name__}: give a path, a ModelProto or a gs.Graph."
        )
