"""Edits of records: what changes, and that nothing else does."""

from typing import Any

import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from surgeon.errors import ModelFileError, RewriteError
from surgeon.file.model import Address, Model
from surgeon.file.patch import Patch
from surgeon.file.protobuf import byte_edits
from tests import sampling
from tests.model_samples import GRAPH, everywhere, tensor
from tests.wire_strategies import models, record, tokens, varint

few = settings(max_examples=sampling.examples(100), deadline=None)


def places(model: Model, where: Address = ()) -> list[tuple[Address, int]]:
    """Every (address, field) of repeated messages and strings that has a record."""
    message = model.message(where)
    out: list[tuple[Address, int]] = []
    for number in message.schema.form:
        count = model.count(where, number)
        if not count or message.schema.name == "TypeProto":
            continue
        single = number in message.schema.single
        if number in message.schema.types:
            for index in range(1 if single else count):
                out += places(model, (*where, (number, index)))
            if not single:
                out.append((where, number))
    return out


def at(proto: Any, where: Address) -> Any:
    """The message at an address of a parsed model."""
    for number, index in where:
        field = proto.DESCRIPTOR.fields_by_number[number]
        value = getattr(proto, field.name)
        proto = value[index] if field.is_repeated else value
    return proto


def flat(data: bytes, frames: Any) -> list[tuple[int, int, bytes, bytes]]:
    """The records of a message, all frames in a row."""
    return [token for frame in frames for token in tokens(data[frame.start : frame.end])]


class Edit:
    """One edit at a place, drawn: what it asks of the patch, and what it makes of a list."""

    def __init__(self, draw: st.DataObject, model: Model, where: Address, number: int) -> None:
        self.where, self.number = where, number
        count = model.count(where, number)
        self.kind = draw.draw(st.sampled_from(["delete", "replace", "insert", "append"]))
        self.index = count if self.kind == "append" else draw.draw(st.integers(0, count - 1))
        kind = at(model.skeleton, where).DESCRIPTOR.fields_by_number[number].message_type
        strings = [f for f in kind.fields if f.type == f.TYPE_STRING and not f.is_repeated]
        size = draw.draw(st.integers(0, 200))
        body = record(strings[0].number, 2, b"x" * size) if strings else b""
        self.bodies = [] if self.kind == "delete" else [body, b""][: draw.draw(st.integers(0, 2))]

    def ask(self, patch: Patch) -> None:
        """Tell the patch."""
        if self.kind == "delete":
            patch.delete(self.where, self.number, self.index)
        elif self.kind == "replace":
            patch.replace(self.where, self.number, self.index, self.bodies)
        else:
            patch.insert(self.where, self.number, self.index, self.bodies)

    def of(self, items: list[Any], new: list[Any]) -> list[Any]:
        """The edited list."""
        return items[: self.index] + new + items[self.index + (self.kind in ("delete", "replace")) :]

    def make(self, items: Any) -> None:
        """Make the edit in a repeated field of a parsed message."""
        kind = type(items[0])
        old = [kind.FromString(item.SerializeToString()) for item in items]
        del items[:]
        items.extend(self.of(old, [kind.FromString(body) for body in self.bodies]))

    def goes_under(self, other: "Edit") -> bool:
        """Whether the place lies in a record of the field that `other` edits."""
        depth = len(other.where)
        return self.where[:depth] == other.where and [s[0] for s in self.where[depth : depth + 1]] == [other.number]


@few
@given(models(), st.data())
def test_an_edit_changes_its_record_alone(data: bytes, draw: st.DataObject) -> None:
    """A delete, replace or insert parses to the same edit of the parsed model; all other records keep their bytes."""
    model = Model.open(data)
    found = places(model)
    assume(found)
    where, number = draw.draw(st.sampled_from(found))
    edit, patch = Edit(draw, model, where, number), Patch(model)
    edit.ask(patch)
    edited = patch.apply()

    expected = onnx.ModelProto.FromString(data)
    owner = at(expected, where)
    items = getattr(owner, owner.DESCRIPTOR.fields_by_number[number].name)
    edit.make(items)
    assert onnx.ModelProto.FromString(edited) == expected == patch.to_proto()

    after = Model.open(edited)
    for depth in range(len(where)):  # on the way down, only the record that leads to the edit is another
        above = where[:depth]
        pairs = zip(flat(data, model.message(above).frames), flat(edited, after.message(above).frames), strict=True)
        assert [one[0] for one, two in pairs if one[3] != two[3]] in ([], [where[depth][0]])
    before, now = flat(data, model.message(where).frames), flat(edited, after.message(where).frames)
    mine = [token[:2] == (number, 2) for token in before]
    assert [t[3] for t in now if t[:2] != (number, 2)] == [t[3] for t, own in zip(before, mine, strict=True) if not own]
    whole = [t[3] for t, own in zip(before, mine, strict=True) if own]
    assert [t[3] for t in now if t[:2] == (number, 2)] == edit.of(whole, [record(number, 2, b) for b in edit.bodies])


@few
@given(models(), st.data())
def test_many_edits_are_the_edits_one_by_one(data: bytes, draw: st.DataObject) -> None:
    """Edits of different messages, made in any order in one patch, parse to what they make of the parsed model."""
    model = Model.open(data)
    found = places(model)
    assume(len(found) > 1)
    chosen = draw.draw(st.lists(st.sampled_from(found), min_size=2, max_size=4, unique=True))
    drawn = [Edit(draw, model, *place) for place in chosen]
    edits = [edit for edit in drawn if not any(edit.goes_under(other) for other in drawn)]
    patch = Patch(model)
    expected = onnx.ModelProto.FromString(data)
    for edit in edits:
        edit.ask(patch)
        owner = at(expected, edit.where)
        edit.make(getattr(owner, owner.DESCRIPTOR.fields_by_number[edit.number].name))
    assert patch.to_proto() == expected


@few
@given(models(), st.data())
def test_deleting_many_at_once_is_deleting_each(data: bytes, draw: st.DataObject) -> None:
    """Neighbours are cut as one; what lies between others, unknown records and ends of frames included, stays."""
    model = Model.open(data)
    found = places(model)
    assume(found)
    where, number = draw.draw(st.sampled_from(found))
    indices = sorted(draw.draw(st.sets(st.integers(0, model.count(where, number) - 1))))
    at_once, each = Patch(model), Patch(model)
    at_once.delete_all(where, number, indices)
    for index in indices:
        each.delete(where, number, index)
    assert at_once.apply() == each.apply()


def nodes(*names: str) -> list[bytes]:
    """Serialised nodes of these names."""
    return [onnx.NodeProto(name=name).SerializeToString() for name in names]


def three() -> Model:
    """A model of the nodes a, b, c, where b has a body with one node d."""
    body = helper.make_graph([onnx.NodeProto(name="d")], "body", [], [])
    graph = onnx.GraphProto(node=[onnx.NodeProto(name=n) for n in "abc"], name="g")
    graph.node[1].attribute.append(helper.make_attribute("body", body))
    return Model.open(onnx.ModelProto(graph=graph, ir_version=8))


def names(patch: Patch) -> list[str]:
    """Names of the nodes of the main graph after the patch."""
    return [node.name for node in patch.to_proto().graph.node]


def test_edits_at_one_place_keep_their_order() -> None:
    """Inserts stand in the order of the calls, before what replaces the record there."""
    patch = Patch(three())
    patch.replace(GRAPH, 1, 1, nodes("B1", "B2"))
    patch.insert(GRAPH, 1, 1, nodes("x"))
    patch.insert(GRAPH, 1, 3, nodes("end1"))
    patch.insert(GRAPH, 1, 1, nodes("y", "z"))
    patch.insert(GRAPH, 1, 3, nodes("end2"))
    patch.delete(GRAPH, 1, 2)
    assert names(patch) == ["a", "x", "y", "z", "B1", "B2", "end1", "end2"]


def test_end_of_a_body_and_place_behind_its_node() -> None:
    """Both are the same byte; each insert lands in its own message, whatever the order of the calls."""
    inner = (*GRAPH, (1, 1), (5, 0), (6, 0))
    for turn in (1, -1):
        model = three()
        patch = Patch(model)
        for where, index, name in [(inner, 1, "e"), (GRAPH, 2, "x")][::turn]:
            patch.insert(where, 1, index, nodes(name))
        assert names(patch) == ["a", "b", "x", "c"]
        assert [n.name for n in patch.to_proto().graph.node[1].attribute[0].g.node] == ["d", "e"]


def test_insert_where_there_is_none() -> None:
    """A field without records gets its first at the end of the message; a body that is empty can be filled."""
    model = Model.open(record(7, 2, b"") + record(1, 0, b"\x08"))
    patch = Patch(model)
    patch.insert(GRAPH, 5, 0, [tensor("w", 2).SerializeToString()])
    patch.insert(GRAPH, 1, 0, nodes("a"))
    patch.insert((), 8, 0, [helper.make_opsetid("", 20).SerializeToString()])
    proto = patch.to_proto()
    assert [t.name for t in proto.graph.initializer] == ["w"]
    assert [n.name for n in proto.graph.node] == ["a"]
    assert proto.opset_import[0].version == 20
    with pytest.raises(IndexError):
        patch.insert(GRAPH, 1, 1, nodes("b"))
    with pytest.raises(IndexError):
        patch.delete(GRAPH, 1, 0)


def test_scalars_can_be_replaced() -> None:
    """A number's body is its encoding, without a length."""
    patch = Patch(three())
    patch.replace((), 1, 0, [varint(300)])
    patch.replace(GRAPH, 2, 0, [b"another"])
    proto = patch.to_proto()
    assert (proto.ir_version, proto.graph.name) == (300, "another")


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("where", ["node", "end", "twice"])
def test_edits_that_meet_are_refused(order: int, where: str) -> None:
    """A record that goes is not edited inside, not even at its very end, nor edited twice."""
    inner = (*GRAPH, (1, 1), (5, 0), (6, 0))
    patch = Patch(three())
    other = {
        "node": lambda: patch.delete(inner, 1, 0),
        "end": lambda: patch.insert(inner, 1, 1, nodes("e")),
        "twice": lambda: patch.replace(GRAPH, 1, 1, nodes("e")),
    }[where]
    for step in [lambda: patch.delete(GRAPH, 1, 1), other][::order]:
        step()
    with pytest.raises(RewriteError, match="overlap"):
        patch.apply()


def test_a_skeleton_is_never_written() -> None:
    """Bytes that bear a mark are refused as a body, and a file that bears one as a model."""
    model = Model.open(everywhere())
    with pytest.raises(ValueError, match=r"Model\.full"):
        Patch(model).insert(GRAPH, 5, 0, [model.skeleton.graph.initializer[0].SerializeToString()])
    with pytest.raises(ModelFileError, match="skeleton"):
        Model.open(model.skeleton)
    patch = Patch(model)
    patch.replace(GRAPH, 5, 0, [model.serialize(model.skeleton.graph.initializer[0])])
    assert patch.to_proto() == everywhere()


def test_only_enclosing_lengths_are_encoded_anew() -> None:
    """A padded length stays padded unless its message changes size."""
    node = record(1, 2, onnx.NodeProto(name="a").SerializeToString(), 1, 2)
    quiet = record(5, 2, b"", 0, 3)
    model = Model.open(record(7, 2, node + quiet, 2, 2) + record(1, 0, b"\x88\x00"))
    patch = Patch(model)
    patch.replace((*GRAPH, (1, 0)), 3, 0, [b"b"])
    changed = record(1, 2, onnx.NodeProto(name="b").SerializeToString(), 1, 2)
    assert patch.apply() == record(7, 2, changed + quiet, 2, 2) + record(1, 0, b"\x88\x00")
    patch = Patch(model)
    patch.replace((*GRAPH, (1, 0)), 3, 0, [b"longer"])
    changed = record(1, 2, onnx.NodeProto(name="longer").SerializeToString(), 1)
    assert patch.apply() == record(7, 2, changed + quiet, 2) + record(1, 0, b"\x88\x00")


def test_more_than_two_gib_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of protobuf is met before anything is written."""
    monkeypatch.setattr(byte_edits, "MAX_SIZE", 900)
    patch = Patch(three())
    patch.insert(GRAPH, 10, 0, [bytes(900)])
    with pytest.raises(ModelFileError, match="2 GiB"):
        patch.pieces()
