"""Opsets at which a model computes the same, and the newest opset that runs here."""

from functools import cache
from typing import NamedTuple

import onnx
from onnx import TensorProto, helper

from surgeon.ops.schemas import schema
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError

OLDEST = 7  # older opsets lack NumPy broadcasting


class ModelFingerprint(NamedTuple):
    """Identifies what a model computes."""

    graph: bytes
    """The serialized graph."""
    foreign: tuple[int, ...]
    """The schema version of each op of other domains; 0 for an unknown op."""
    own: tuple[int, ...]
    """The schema version of each op of ai.onnx."""


def fingerprint(model: onnx.ModelProto) -> ModelFingerprint:
    """The fingerprint of a model; equal for models that compute the same."""
    versions = {item.domain: item.version for item in model.opset_import}
    known = [schema(node.domain, node.op_type, versions.get(node.domain)) for node in model.graph.node]
    since: dict[bool, list[int]] = {True: [], False: []}
    for node, item in zip(model.graph.node, known, strict=True):
        since[node.domain in ("", "ai.onnx")].append(item.since_version if item is not None else 0)
    return ModelFingerprint(model.graph.SerializeToString(deterministic=True), tuple(since[False]), tuple(since[True]))


def at_oldest_opset(
    model: onnx.ModelProto, before: ModelFingerprint, after: ModelFingerprint
) -> onnx.ModelProto | None:
    """The model at the oldest opset with the same op versions; None if that is its opset.

    before, after: the fingerprints of the model and of the rewritten model.
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
    """The newest version of ai.onnx that the installed onnx and ONNX Runtime support."""
    for opset in range(onnx.defs.onnx_opset_version(), OLDEST, -1):
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "one", value[:1], value[1:])
        try:
            with OrtSession(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)):
                return opset
        except SessionError:  # newer than this ONNX Runtime
            continue
    return OLDEST
