"""Opsets under which a model means the same, and the newest that can be run here."""

from functools import cache
from typing import NamedTuple

import onnx
from onnx import TensorProto, helper

from surgeon.ops.schemas import schema
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError

OLDEST = 7  # before it operands do not broadcast as in NumPy


class ModelFingerprint(NamedTuple):
    """What a model computes: its graph in bytes, and the version of each op, of foreign domains and of ai.onnx."""

    graph: bytes
    foreign: tuple[int, ...]
    own: tuple[int, ...]


def content(model: onnx.ModelProto) -> ModelFingerprint:
    """Return what a model computes; equal for models that mean the same."""
    versions = {item.domain: item.version for item in model.opset_import}
    known = [schema(node.domain, node.op_type, versions.get(node.domain)) for node in model.graph.node]
    since: dict[bool, list[int]] = {True: [], False: []}
    for node, item in zip(model.graph.node, known, strict=True):
        since[node.domain in ("", "ai.onnx")].append(item.since_version if item is not None else 0)
    return ModelFingerprint(model.graph.SerializeToString(deterministic=True), tuple(since[False]), tuple(since[True]))


def oldest_alike(model: onnx.ModelProto, before: ModelFingerprint, after: ModelFingerprint) -> onnx.ModelProto | None:
    """The model under the oldest opset at which its ops and its replacement's are what they are; None for the same.

    before, after: the content of the model and of its replacement.
    """
    oldest = max([OLDEST, *before.own, *after.own])
    older = onnx.ModelProto()
    older.CopyFrom(model)
    imported = next(item for item in older.opset_import if not item.domain)
    if imported.version <= oldest:
        return None
    imported.version = oldest
    return older


@cache
def newest_opset() -> int:
    """The newest version of ai.onnx that both onnx and the ONNX Runtime here know."""
    for opset in range(onnx.defs.onnx_opset_version(), OLDEST, -1):
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "one", value[:1], value[1:])
        try:
            with OrtSession(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)):
                return opset
        except SessionError:  # released after this runtime
            continue
    return OLDEST
