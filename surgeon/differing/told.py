"""What models tell of themselves that changes nothing they compute: who made them, doc strings, metadata."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from onnx import FunctionProto, ModelProto

from surgeon.indexing.scope import Node
from surgeon.listing import counted
from surgeon.ops.walking import key_of

_FIELDS = ("ir_version", "producer_name", "producer_version", "domain", "model_version")
_SHOWN = 40  # characters of a text


def told_of(one: ModelProto, other: ModelProto) -> Iterator[str]:
    """What differs in what two models say of themselves, of their graphs, ends and functions, a line each."""
    for name in _FIELDS:
        yield from _line(name, *(str(getattr(model, name) or "") for model in (one, other)))
    yield from _of_messages("", one, other)
    yield from _line("graph name", one.graph.name, other.graph.name)
    yield from _of_messages("graph: ", one.graph, other.graph)
    for side in ("input", "output"):
        values = [{value.name: value for value in getattr(model.graph, side)} for model in (one, other)]
        yield from _of_pairs(side, *values)
    functions: list[dict[str, FunctionProto]] = [
        {"::".join(filter(None, key_of(item))): item for item in model.functions} for model in (one, other)
    ]
    yield from _of_pairs("function", *functions)


def told_of_nodes(one: Node, other: Node) -> Iterator[str]:
    """What differs in what is told of two nodes that stand for each other: "doc_string", or a key of their metadata."""
    texts = [_told(node.proto) for node in (one, other)]
    yield from (name for name in dict.fromkeys((*texts[0], *texts[1])) if texts[0].get(name) != texts[1].get(name))


def lines_of_nodes(counts: Counter[str]) -> Sequence[str]:
    """The same of all nodes: of how many it differs."""
    return [f"{name} of {counted(count, 'node')}" for name, count in counts.most_common()]


def _of_pairs(what: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for name in one:
        if name in other:
            yield from _of_messages(f"{what} {name}: ", one[name], other[name])


def _of_messages(where: str, one: Any, other: Any) -> Iterator[str]:
    texts = [_told(message) for message in (one, other)]
    for name in dict.fromkeys((*texts[0], *texts[1])):
        yield from _line(f"{where}{name}", *(held.get(name, "") for held in texts))


def _told(message: Any) -> dict[str, str]:
    """The doc string and the metadata of a message, those that say something."""
    found = {"doc_string": message.doc_string}
    found |= {f"metadata {item.key}": item.value for item in message.metadata_props}
    return {name: text for name, text in found.items() if text}


def _line(name: str, before: str, after: str) -> Iterator[str]:
    if before != after:
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        first = 0 if alike < _SHOWN else alike - _SHOWN // 2  # else a long text and another would read the same
        yield f"{name}: {_shown(before, first)} → {_shown(after, first)}"


def _shown(text: str, first: int) -> str:
    if not text:
        return "nothing"
    shown = text[first : first + _SHOWN]
    return repr(f"{'…' * (first > 0)}{shown}{'…' * (first + _SHOWN < len(text))}")
