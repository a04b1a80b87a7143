"""Encodes NodeProto records directly: for ten thousands of nodes, creating protobuf objects takes longer.

A record consists of concatenated parts, which protobuf reads as one message.
"""

from collections.abc import Iterable, Sequence
from functools import cache

from surgeon.file.protobuf.wire_format import write_varint

INPUT, OUTPUT, NAME, OP_TYPE, ATTRIBUTE, DOC_STRING, DOMAIN, METADATA = 1, 2, 3, 4, 5, 6, 7, 9
KEY, VALUE = 1, 2
LEN = 2
FROM, RULE = "surgeon.from", "surgeon.rule"  # keys of a node's metadata: the nodes that it replaced, and the rule

# Tag and length of short fields, by number and length: a lookup is faster than encoding.
_HEADS = [[bytes((number << 3 | LEN, size)) for size in range(0x80)] for number in range(METADATA + 1)]


def node_record(name: str, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    """The part of a NodeProto (onnx.proto, "message NodeProto") that differs between nodes of one kind."""
    parts = [_text(INPUT, item) for item in inputs]
    parts += [_text(OUTPUT, item) for item in outputs]
    parts.append(_text(NAME, name))
    return b"".join(parts)


def kind_record(op: str, domain: str, attributes: Iterable[bytes]) -> bytes:
    """The part that they share; attributes are serialised AttributeProtos."""
    parts = [_text(OP_TYPE, op), *(_field(ATTRIBUTE, item) for item in attributes)]
    if domain:
        parts.append(_text(DOMAIN, domain))
    return b"".join(parts)


def doc_record(doc_string: str) -> bytes:
    """The doc string of a node; empty if there is none."""
    return _text(DOC_STRING, doc_string) if doc_string else b""


def metadata_record(key: str, value: str) -> bytes:
    """One entry of a node's metadata_props."""
    return _field(METADATA, _key(key) + _text(VALUE, value))


@cache
def _key(key: str) -> bytes:
    return _text(KEY, key)


def _text(number: int, text: str) -> bytes:
    body = text.encode()
    size = len(body)
    return _HEADS[number][size] + body if size < 0x80 else _field(number, body)


def _field(number: int, body: bytes) -> bytes:
    size = len(body)
    if size < 0x80:
        return _HEADS[number][size] + body
    if size < 0x4000:
        return bytes((number << 3 | LEN, size & 0x7F | 0x80, size >> 7)) + body
    return bytes((number << 3 | LEN,)) + write_varint(size) + body
