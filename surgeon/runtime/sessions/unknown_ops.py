"""Operators that are unknown here, and what the user can do about them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from onnx import ModelProto

from surgeon.ops.schemas.node_check import target_of_op
from surgeon.ops.schemas.op_schema import schema
from surgeon.ops.traversal import nodes_of
from surgeon.runtime.implementations.implementation import available
from surgeon.runtime.kernels.kernel_registry import REFERENCE_KERNELS
from surgeon.runtime.sessions.ort_session import ORT_DOMAINS

_NAMED = 3  # operators in one sentence


def unknown_ops(model: ModelProto, custom_ops: Sequence[Path | str] = ()) -> list[tuple[str, str]]:
    """Return the operators, by domain and name, that are not ONNX's and that no implementation computes.

    In the model's order, each once.  Raises UsageError as `surgeon.runtime.implementations.implementation.load` does.
    """
    return list(dict.fromkeys(_unknown(model, custom_ops)))


def unknown_ops_hint(model: ModelProto, custom_ops: Sequence[Path | str] = (), *, has_rules: bool = True) -> str:
    """How to run operators that are unknown here, as the rest of a sentence; empty if all are known.

    An operator that no runtime defines may be torch's, as the exporter writes operators that it does not know.
    has_rules: whether the user has a file of rules.
    """
    found = unknown_ops(model, custom_ops)
    if not found:
        return ""
    names = [f'"{domain}::{op}"' for domain, op in found]
    others = f" (and so for {', '.join(names[1:_NAMED])}{', ...' * (len(names) > _NAMED)})" if names[1:] else ""
    given = f"an implementation, @surgeon.implements({names[0]}) in a file given to --custom-ops"
    if target_of_op(*found[0]) is not None:  # a target's own is none of torch's
        return f": give {given}{others}"
    where = "the rules file" if has_rules else "such a file"
    return f": give {given}, or write surgeon.torch.implement({names[0]}) in {where} if torch has that op{others}"


def _unknown(model: ModelProto, custom_ops: Sequence[Path | str]) -> Iterator[tuple[str, str]]:
    known = {*available(custom_ops), *REFERENCE_KERNELS, *((one.domain, one.name) for one in model.functions)}
    for node in nodes_of(model):
        key = (node.domain, node.op_type)
        if node.domain not in ORT_DOMAINS and key not in known and schema(*key) is None:
            yield key
