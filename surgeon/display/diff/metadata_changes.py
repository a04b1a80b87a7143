"""Differences that change no results: producer, doc strings, metadata, unused tensors."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from onnx import FunctionProto, ModelProto

from surgeon.display.pictures.diagram import type_text
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traversal import function_key
from surgeon.text import format_count, join_first

_FIELDS = ("ir_version", "producer_name", "producer_version", "domain", "model_version")
_SHOWN = 40  # characters of a text
_LISTED = 6  # tensors listed by name


def metadata_lines(one: ModelProto, other: ModelProto) -> Iterator[str]:
    """The differences in the metadata of two models, their graphs, inputs, outputs and functions, a line each."""
    for name in _FIELDS:
        yield from _line(name, *(str(getattr(model, name) or "") for model in (one, other)))
    yield from _lines_of_messages("", one, other)
    yield from _line("graph name", one.graph.name, other.graph.name)
    yield from _lines_of_messages("graph: ", one.graph, other.graph)
    for side in ("input", "output"):
        values = [{value.name: value for value in getattr(model.graph, side)} for model in (one, other)]
        yield from _lines_of_pairs(side, *values)
    functions: list[dict[str, FunctionProto]] = [
        {"::".join(filter(None, function_key(item))): item for item in model.functions} for model in (one, other)
    ]
    yield from _lines_of_pairs("function", *functions)
    for name, sides in (
        ("training info", [model.training_info for model in (one, other)]),
        ("quantization annotations", [model.graph.quantization_annotation for model in (one, other)]),
    ):
        texts = [sorted(item.SerializeToString(deterministic=True) for item in items) for items in sides]
        if texts[0] != texts[1]:
            yield f"{name}: {' → '.join(str(len(items) or 'nothing') for items in sides)}, of other content"


def unread_tensor_lines(one: Scope, other: Scope) -> Iterator[str]:
    """The difference in stored tensors that no node of the main graphs reads."""
    counts = [Counter(_unread(scope)) for scope in (one, other)]
    if counts[0] != counts[1]:
        before, after = (join_first(list((mine - theirs).elements()), _LISTED) or "nothing"
                         for mine, theirs in (counts, counts[::-1]))
        yield f"stored tensors that nothing reads, in only one model: {before} → {after}"


def _unread(scope: Scope) -> Iterator[str]:
    """The dtypes and shapes of stored tensors that no node reads and that are not outputs."""
    outputs = set(scope.output_names)
    for name, tensor in scope.initializers.items():
        if name not in outputs and not scope.consumers.get(name):
            yield type_text(tensor.data_type, tensor.dims)


def changed_metadata_keys(one: Node, other: Node) -> Iterator[str]:
    """The differences in the metadata of two paired nodes: "doc_string", or a key."""
    texts = [_metadata(node.proto) for node in (one, other)]
    yield from (name for name in dict.fromkeys((*texts[0], *texts[1])) if texts[0].get(name) != texts[1].get(name))


def node_metadata_lines(counts: Counter[str]) -> Sequence[str]:
    """A line for each key, with the number of nodes in which it differs."""
    return [f"{name} of {format_count(count, 'node')}" for name, count in counts.most_common()]


def _lines_of_pairs(what: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for name in one:
        if name in other:
            yield from _lines_of_messages(f"{what} {name}: ", one[name], other[name])


def _lines_of_messages(where: str, one: Any, other: Any) -> Iterator[str]:
    texts = [_metadata(message) for message in (one, other)]
    for name in dict.fromkeys((*texts[0], *texts[1])):
        yield from _line(f"{where}{name}", *(metadata.get(name, "") for metadata in texts))


def _metadata(message: Any) -> dict[str, str]:
    """The doc string and the metadata of a message, without empty ones."""
    found = {"doc_string": message.doc_string}
    for item in message.metadata_props:
        name = f"metadata {item.key}"
        count = 1
        while name in found:  # a repeated key
            count += 1
            name = f"metadata {item.key} ({count})"
        found[name] = item.value
    return {name: text for name, text in found.items() if text}


def _line(name: str, before: str, after: str) -> Iterator[str]:
    if before != after:
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        first = 0 if alike < _SHOWN else alike - _SHOWN // 2  # so that the difference is in the shown part
        yield f"{name}: {_shown(before, first)} → {_shown(after, first)}"


def _shown(text: str, first: int) -> str:
    if not text:
        return "nothing"
    shown = text[first : first + _SHOWN]
    return repr(f"{'…' * (first > 0)}{shown}{'…' * (first + _SHOWN < len(text))}")
