"""The scan of the wire format, against protobuf's own parser."""

import onnx
import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from surgeon.file.protobuf import wire_format
from tests import sampling
from tests.wire_strategies import models, records_of, tokens, varint

few = settings(max_examples=sampling.examples(100), deadline=None)

SCHEMAS = [onnx.ModelProto, onnx.GraphProto, onnx.NodeProto, onnx.AttributeProto, onnx.TensorProto, onnx.TypeProto]


@given(st.integers(0, 2**64 - 1))
def test_varints_come_back(value: int) -> None:
    """What is written is read, in the shortest form."""
    assert wire_format.write_varint(value) == varint(value)
    assert wire_format.read_varint(wire_format.write_varint(value), 0) == (value, len(varint(value)))


def test_every_way_to_a_tensor_is_known() -> None:
    """The messages to descend into follow from the descriptors, so that a new field of ONNX is not overlooked."""
    types = onnx.ModelProto.DESCRIPTOR.file.message_types_by_name
    leads = {m: wire_format.schema_of(types[m]).toward_tensors for m in (
        "ModelProto", "GraphProto", "NodeProto", "AttributeProto", "FunctionProto", "TrainingInfoProto",
        "SparseTensorProto", "TensorProto", "TypeProto", "ValueInfoProto",
    )}  # fmt: skip
    assert {name: set(numbers) for name, numbers in leads.items()} == {
        "ModelProto": {7, 20, 25}, "GraphProto": {1, 5, 15}, "NodeProto": {5}, "AttributeProto": {5, 6, 10, 11, 22, 23},
        "FunctionProto": {7, 11}, "TrainingInfoProto": {1, 2}, "SparseTensorProto": {1, 2}, "TensorProto": set(),
        "TypeProto": set(), "ValueInfoProto": set(),
    }  # fmt: skip


def agree(message: wire_format.Message, proto: ProtoMessage) -> None:
    """Each field's records, parsed alone, give that field of the parsed message; so do its inner messages."""
    data = message.data
    for field in proto.DESCRIPTOR.fields:
        records = message.records(field.number)
        if field.containing_oneof is not None:
            continue  # a later member of the oneof drops an earlier one; such messages are never edited inside
        alone = type(proto).FromString(b"".join(data[a:b] for a, b in zip(records.starts, records.ends, strict=True)))
        expected = type(proto)()
        expected.CopyFrom(proto)
        for other in proto.DESCRIPTOR.fields:
            if other is not field:
                expected.ClearField(other.name)
        for each in (alone, expected):
            each.DiscardUnknownFields()
        assert alone.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
        if field.is_repeated and (field.message_type or field.type in (field.TYPE_STRING, field.TYPE_BYTES)):
            assert len(records) == len(getattr(proto, field.name))
        if field.message_type is not None:
            if field.is_repeated:
                for index, inner in enumerate(getattr(proto, field.name)):
                    agree(message.child(field.number, index), inner)
            elif proto.HasField(field.name):
                agree(message.child(field.number, 0), getattr(proto, field.name))


@few
@given(models())
def test_scan_agrees_with_protobuf_on_models(data: bytes) -> None:
    """Every record that protobuf reads is found, at every depth, and no other."""
    agree(wire_format.parse_root(data), onnx.ModelProto.FromString(data))


@few
@given(st.sampled_from(SCHEMAS), st.data())
def test_scan_agrees_with_protobuf_on_any_message(kind: type[ProtoMessage], data: st.DataObject) -> None:
    """As above for other messages at the root."""
    raw = b"".join(data.draw(records_of(kind.DESCRIPTOR, 4)))
    agree(wire_format.parse_root(raw, kind), kind.FromString(raw))


def entirely(message: wire_format.Message) -> None:
    """Scan a message and all that it holds."""
    for field in message.schema.form:
        count = len(message.records(field))
        if field in message.schema.types and count:
            for index in range(1 if field in message.schema.single else count):
                entirely(message.child(field, index))


@few
@given(models(), st.data())
def test_scan_refuses_only_what_protobuf_refuses(data: bytes, draw: st.DataObject) -> None:
    """On damaged bytes: what protobuf parses is scanned, and agrees with it."""
    at = draw.draw(st.integers(0, len(data) - 1))
    cut = draw.draw(st.integers(at, min(len(data), at + 3)))
    broken = data[:at] + draw.draw(st.binary(max_size=3)) + data[cut:]
    try:
        proto = onnx.ModelProto.FromString(broken)
    except DecodeError:
        return
    try:
        agree(wire_format.parse_root(broken), proto)
    except wire_format.WireError as error:
        if "field number" not in str(error):  # protobuf lets field number 0 pass inside of unknown groups
            raise


@few
@given(st.sampled_from([onnx.NodeProto, onnx.AttributeProto]), st.integers(-1, 40), st.data())
def test_no_long_record_is_overlooked(kind: type[ProtoMessage], least: int, data: st.DataObject) -> None:
    """A quick look at a message finds what a scan finds, and says no only if there is nothing."""
    raw = b"".join(data.draw(records_of(kind.DESCRIPTOR, 4)))
    tags = wire_format.schema_of(kind.DESCRIPTOR).toward_tensors
    message = wire_format.parse_root(raw, kind)
    found = [message.records(field) for field in tags]
    bodies = sum(sum(len(raw[a:b]) - 2 for a, b in zip(one.starts, one.ends, strict=True)) for one in found)
    record = b"\x0a" + varint(len(raw)) + raw + b"more"
    seen = wire_format.may_contain(record, (0, len(record) - 4), tags.values(), least)
    assert seen or bodies <= least


@pytest.mark.parametrize(("size", "expected"), [(1000, False), (1001, True)])
def test_long_metadata_do_not_look_like_tensors(size: int, expected: bool) -> None:
    """Only records that lead to tensors count, by the bytes of their bodies."""
    node = onnx.NodeProto(doc_string="d" * 5000, name="n" * 200)
    node.attribute.add().s = b"s" * (size - 3)
    raw = node.SerializeToString()
    record = b"\x0a" + varint(len(raw)) + raw
    tags = wire_format.schema_of(node.DESCRIPTOR).toward_tensors.values()
    assert wire_format.may_contain(record, (0, len(record)), tags, 1000) == expected


@few
@given(models())
def test_cut_off_bytes_are_refused_as_protobuf_does(data: bytes) -> None:
    """At every length, the scan of all levels fails exactly where a naive parse of the known records does."""
    for size in range(0, len(data), max(1, len(data) // 12)):
        try:
            entirely(wire_format.parse_root(data[:size]))
        except wire_format.WireError:
            with pytest.raises(DecodeError):
                onnx.ModelProto.FromString(data[:size])


@pytest.mark.parametrize(
    "data",
    [
        b"\x02\x00", b"\x00\x00", b"\x3c", b"\x3b", b"\x3b\x44", b"\x0e", b"\x0f", b"\x12", b"\x12\x05ab", b"\x12\x85",
        b"\x08" + b"\x80" * 10 + b"\x01", b"\x88\x80\x80\x80\x80\x00\x08", b"\x12\x81\x80\x80\x80\x80\x00a",
        b"\xf8\xff\xff\xff\x1f\x08", b"\x3b" * 101 + b"\x3c" * 101, b"\x0d\x01\x02", b"\x09\x01",
    ],
)  # fmt: skip
def test_broken_wire_data_are_refused(data: bytes) -> None:
    """Field number 0, stray group ends, wire types 6 and 7, cut records, varints too long: as protobuf has it."""
    with pytest.raises(wire_format.WireError):
        wire_format.parse_root(data).records(1)
    with pytest.raises(DecodeError):
        onnx.ModelProto.FromString(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x88\x80\x80\x80\x00\x08", b"\x12\x81\x80\x80\x80\x00a", b"\xf8\xff\xff\xff\x0f\x08",
        b"\x08" + b"\xff" * 9 + b"\x7f", b"\x3b\x53\x54\x3c", b"\x3b" * 100 + b"\x3c" * 100,
    ],
)  # fmt: skip
def test_odd_but_legal_wire_data_are_taken(data: bytes) -> None:
    """Padded tags and lengths, the largest field number, groups inside groups."""
    agree(wire_format.parse_root(data), onnx.ModelProto.FromString(data))


def test_split_message_counts_across_its_frames() -> None:
    """A graph in two records has one count of nodes."""
    one = onnx.GraphProto(node=[onnx.NodeProto(name="a"), onnx.NodeProto(name="b")]).SerializeToString()
    two = onnx.GraphProto(node=[onnx.NodeProto(name="c")]).SerializeToString()
    data = b"\x3a" + varint(len(one)) + one + b"\x08\x08" + b"\x3a" + varint(len(two), 2) + two
    graph = wire_format.parse_root(data).child(7, 0)
    assert len(graph.frames) == 2
    assert [graph.child(1, i).bytes() for i in range(3)] == [onnx.NodeProto(name=n).SerializeToString() for n in "abc"]
    with pytest.raises(IndexError):
        wire_format.parse_root(data).child(7, 1)


@few
@given(records_of(onnx.GraphProto.DESCRIPTOR, 3))
def test_the_naive_reader_of_the_tests_reads_all(records: list[bytes]) -> None:
    """The oracle of the edit tests gives the bytes back."""
    assert b"".join(whole for *_, whole in tokens(b"".join(records))) == b"".join(records)
