"""Copies of local functions that are called with different dtypes, so that each can be converted with its calls."""

from collections import defaultdict
from typing import Any

from onnx import FunctionProto

from surgeon.ir.scope import Node, Scope
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traversal import function_key, unique_name
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.shapes.shape_inference import ShapeInference

Given = tuple[bool, ...]
"""Whether each argument of a call has the old dtype."""


def specialize_functions(draft: ModelDraft, old: int) -> None:
    """Copy the functions of a draft so that each is called with one choice of inputs of the old dtype.

    The first call keeps the function; the name of a copy has the dtype, or says that it has no such input.
    """
    while draft.skeleton.functions and _divide(draft, old):
        draft.changed()


def _divide(draft: ModelDraft, old: int) -> bool:
    """Copy functions with several kinds of calls; whether there were any."""
    has_divided = False
    for function, by_given in _calls(draft, old).items():
        ways = list(by_given.items())
        counts = [set(calls) for _, calls in ways]
        if len(ways) < 2 or len(set.union(*counts)) < sum(map(len, counts)):
            continue  # such a call lies in a function that must be copied first
        proto: Any = function.proto
        for given, calls in ways[1:]:
            copy = FunctionProto()
            copy.CopyFrom(proto)
            taken = {function_key(one)[1] for one in draft.skeleton.functions}
            copy.name = unique_name(f"{proto.name}_{dtype_name(old) if any(given) else 'other'}", taken)
            draft.skeleton.functions.append(copy)
            for call in calls:
                call.proto.op_type = copy.name
        has_divided = True
    return has_divided


def _calls(draft: ModelDraft, old: int) -> dict[Scope, dict[Given, list[Node]]]:
    """The calls of each function by their arguments, for all calls of the functions around them."""
    index = draft.index
    found: dict[Scope, dict[Given, list[Node]]] = defaultdict(lambda: defaultdict(list))
    waiting: list[tuple[Scope | None, ShapeInference]] = [(None, draft.shapes)]
    while waiting:
        around, shapes = waiting.pop(0)
        for scope in index.scopes:
            for node in scope.nodes if scope.function is around else ():
                called = index.called(node)
                inner = None if called is None else shapes.for_call(node)
                if called is None or inner is None:
                    continue
                given = tuple(inner.facts(called, name).dtype == old for name in _proto(called).input)
                if given not in found[called]:
                    waiting.append((called, inner))
                if node not in found[called][given]:
                    found[called][given].append(node)
    return found


def _proto(scope: Scope) -> Any:
    return scope.proto
