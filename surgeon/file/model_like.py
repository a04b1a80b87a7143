"""Converts the models that callers pass, paths or models in memory, for this package."""

import os
from pathlib import Path
from typing import TypeAlias, cast

import onnx_graphsurgeon as gs
from onnx import ModelProto

from surgeon.errors import UsageError

ModelLike: TypeAlias = str | os.PathLike[str] | ModelProto | gs.Graph


def resolve_model(source: ModelLike) -> Path | ModelProto:
    """An absolute path, or a ModelProto; a gs.Graph is exported.

    Raises UsageError for anything else, and if gs cannot export the graph.
    """
    if isinstance(source, gs.Graph):
        return exported(source)
    _require(source)
    return source if isinstance(source, ModelProto) else Path(os.path.abspath(source))


def exported(graph: gs.Graph) -> ModelProto:
    """A graph as gs exports it; the graph itself is unchanged.  Raises UsageError if gs cannot."""
    try:
        copied = graph.copy()
        kinds = {name: tensor.type for name, tensor in graph.tensors().items() if isinstance(tensor, gs.Variable)}
        for name, tensor in copied.tensors().items():
            if isinstance(tensor, gs.Variable):
                tensor.type = kinds[name]  # a copy forgets the type of a sequence
        return cast(ModelProto, gs.export_onnx(copied, do_type_check=False))
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f"gs cannot export this graph ({error}). Give its outputs a dtype and a shape, or pass a path."
        ) from error


def model_name(source: ModelLike, unnamed: str = "") -> str:
    """The name of a model: its path as given; `unnamed` for a model in memory."""
    _require(source)
    return unnamed if isinstance(source, (ModelProto, gs.Graph)) else os.fspath(source)


def is_in_memory(source: object) -> bool:
    """Whether a source is not a path, so that results are returned in memory.  Raises UsageError as `resolve_model`."""
    _require(source)
    return isinstance(source, (ModelProto, gs.Graph))


def _require(source: object) -> None:
    if not isinstance(source, (ModelProto, gs.Graph, str, os.PathLike)):
        raise UsageError(
            f"Invalid model of type {type(source).__name__}. Give a path, a ModelProto or a gs.Graph."
        )
