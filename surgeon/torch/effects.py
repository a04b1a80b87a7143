"""A placeholder that is in no node has had no effect, which is never passed over in silence: why, in a sentence."""

import difflib
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from surgeon.errors import ExportError
from surgeon.torch import torchscript
from surgeon.torch.arguments import Examples
from surgeon.torch.placeholders import Placeholder
from surgeon.torch.plan import ExportPlan


def require_effect(asked: Sequence[Placeholder], plan: ExportPlan, module: torch.nn.Module, exporter: str) -> None:
    """Raise ExportError for a placeholder that was named for this export and is in no node of it."""
    called = {id(written.placeholder) for written in plan.written}
    there = {id(written.placeholder) for written in plan.found.values()}
    for one in asked:
        if id(one) in there:
            continue
        name = type(module).__name__
        if id(one) in called:
            raise ExportError(_unused(one, name))
        if one.cls is not None:
            raise ExportError(f"{name} does not call {one.label}, so there is no placeholder for it; leave it out.")
        raise ExportError(_reason(one, name, module, plan.inputs, exporter))


def _unused(one: Placeholder, name: str) -> str:
    return (
        f"{name} calls {one.label}, but nothing uses what it returns, so the exporter leaves it out; let "
        "forward return it."
    )


def _reason(one: Placeholder, name: str, module: torch.nn.Module, inputs: Examples, exporter: str) -> str:
    calls = _calls(module, inputs)
    mine = {op._schema.name for op in one.ops}
    if outer := mine.intersection(calls):
        pieces = (
            torchscript.met(module, inputs) - set(calls) if exporter == "torchscript" else calls[outer.pop()] - mine
        )
        if not pieces:
            return _unused(one, name)
        return (
            f"{name} calls {one.label}, but the {exporter} exporter takes it apart into {', '.join(sorted(pieces))} "
            "before it looks for placeholders; name what it becomes, or a module class that calls it."
        )
    inside = [whole for whole, pieces in calls.items() if mine & pieces]
    if inside:
        return (
            f"{one.label} is only what {inside[0]} is decomposed into after the exporter has looked for placeholders; "
            f"name {inside[0]} instead."
        )
    near = difflib.get_close_matches(one.label.partition(".")[0], calls, 3, 0.6) or sorted(calls)[:6]
    called = f"; it calls {', '.join(near)}" if near else ""
    return f"{name} does not call {one.label}, so there is no placeholder for it{called}."


def _calls(module: torch.nn.Module, inputs: Examples) -> dict[str, set[str]]:
    """The operators that a module calls, each with those that it is decomposed into; none where torch cannot say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = torch.export.export(module, inputs.args, dict(inputs.kwargs), strict=False)
            whole = program.run_decompositions()
        except (
            RuntimeError,
            TypeError,
            ValueError,
            AttributeError,
            KeyError,
        ):  # a module that only the other exporter takes; the sentence does without
            return {}
    outer = {node.name: node.target._schema.name for node in program.graph.nodes if _is_op(node)}
    calls: dict[str, set[str]] = {op: set() for op in outer.values()}
    for node in whole.graph.nodes:
        for source in (node.meta.get("from_node") or ()) if _is_op(node) else ():
            if source.name in outer:
                calls[outer[source.name]].add(node.target._schema.name)
    return calls


def _is_op(node: Any) -> bool:
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
