"""Operators without an implementation, and advice for the user."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from onnx import ModelProto

from surgeon.ir.scope import split_op
from surgeon.ops.schemas.node_check import target_of_op
from surgeon.ops.schemas.op_schema import schema
from surgeon.ops.traits.trait_lookup import has_traits
from surgeon.ops.traversal import nodes_of
from surgeon.runtime.implementations.implementation import available, is_python
from surgeon.runtime.kernels.kernel_registry import REFERENCE_KERNELS
from surgeon.runtime.sessions.ort_session import is_foreign
from surgeon.text import join_first

_NAMED = 3  # operators in one sentence


def unknown_ops(model: ModelProto, custom_ops: Sequence[Path | str] = ()) -> list[tuple[str, str]]:
    """Return the operators outside of ONNX that no implementation computes, by domain and name.

    They are in the model's order, each once.  Raises UsageError as
    `surgeon.runtime.implementations.implementation.load` does.
    """
    return list(dict.fromkeys(_unknown(model, custom_ops)))


def unknown_ops_hint(model: ModelProto, custom_ops: Sequence[Path | str] = (), *, has_rules: bool = True) -> str:
    """Advice on how to run unknown operators, to append to a sentence; empty if all operators are known.

    An operator that no runtime defines may be torch's, because exporters write unknown operators into the model.
    has_rules: whether the user has a rule file.
    """
    found = unknown_ops(model, custom_ops)
    if not found:
        return ""
    names = [f'"{domain or "ai.onnx"}::{op}"' for domain, op in found]
    others = f" (likewise for {', '.join(names[1:_NAMED])}{', ...' * (len(names) > _NAMED)})" if names[1:] else ""
    advice = f"Register an implementation with @surgeon.implements({names[0]}), and pass the file with --custom-ops"
    domain, op = found[0]
    if not domain or target_of_op(domain, op) is not None:  # torch does not have a target's op
        return f". {advice}{others}"
    where = "the rule file" if has_rules else "that file"
    return f". {advice}. If torch has the op, write surgeon.torch.implement({names[0]}) in {where} instead{others}"


def _unknown(model: ModelProto, custom_ops: Sequence[Path | str]) -> Iterator[tuple[str, str]]:
    known = {*available(custom_ops), *REFERENCE_KERNELS, *((one.domain, one.name) for one in model.functions)}
    for node in nodes_of(model):
        key = (node.domain, node.op_type)
        if is_foreign(*key) and key not in known and schema(*key) is None:
            yield key


def _is_of_nobody(name: str) -> bool:
    """Whether no schema and no target defines an operator."""
    domain, op = split_op(name)
    return is_foreign(domain, op) and schema(domain, op) is None and target_of_op(domain, op) is None


def undeclared_hint(ops: Iterable[str], custom_ops: Sequence[Path | str] = ()) -> str:
    """Advice to declare traits of the user's own operators among these, as a clause; empty if all are declared.

    Own operators are those with a Python implementation.  If `custom_ops` contains shared libraries, all operators that
    no schema and no target defines count too, because a library does not list its operators.

    ops: qualified names of operators without those of local functions.  Raises UsageError as
    `surgeon.runtime.implementations.implementation.load` does.
    """
    own = {"::".join(filter(None, key)) for key in available(custom_ops)}
    has_libraries = not all(map(is_python, custom_ops))
    found = [
        name
        for name in dict.fromkeys(ops)
        if (name in own or (has_libraries and _is_of_nobody(name))) and not has_traits(name)
    ]
    if not found:
        return ""
    example = found[0] if "::" in found[0] else f"ai.onnx::{found[0]}"
    return (
        f"proofs treat any number as a valid input of {join_first(found, _NAMED)}. If an input holds indices or "
        f'counts, declare it, for example @surgeon.implements("{example}", indices=(1,)), otherwise random=False'
    )
