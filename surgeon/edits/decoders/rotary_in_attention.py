"""Rotary embeddings inside GroupQueryAttention, which reads the angles of each position from tables."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from surgeon.analysis.decoder_graph import ROWS, Decoder
from surgeon.edits.decoders.sequence_sizes import found_decoder
from surgeon.errors import ConditionFailed, UsageError, require
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.prune import filter_repeated, prune
from surgeon.rules.matching.visible_keys import ComputedTensor
from surgeon.shapes.algebra.size_expressions import product, symbols
from surgeon.text import format_count

NONE = "queries or keys have none"
_KNOWN = frozenset(("interleaved", "num_heads", "rotary_embedding_dim", "scale"))
_BLOCK = 8  # numbers of a table's row: the kernel on a CPU takes multiples


class _Rotation(NamedTuple):
    """The rotary embedding in front of an input of an attention."""

    reader: NodeProto
    """The node that reads the rotated tensor."""
    slot: int
    """Its input."""
    plain: str
    """The tensor before the rotation."""
    angles: tuple[str, ...]
    """Cos, sin, and indices of their rows if they are tables."""
    is_interleaved: bool
    """Whether neighbours are rotated together."""


@dataclass(frozen=True, slots=True)
class RotaryInAttention(Edit):
    """Rotate queries and keys inside of GroupQueryAttention, by tables of cos and sin for a number of positions.

    The tables are computed by the model's own nodes, one for each set of angles.  Positions then follow from the mask,
    so the input of positions is removed.  An attention stays as it is if its kernel does not support the size.

    Raises:
        UsageError: the model is not a decoder with a cache, or the number of positions is not positive.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.RotaryInAttention(2048).spelling
        '2048'
    """

    positions: int
    """The number of positions, which is the longest context."""
    flag = "rotary-in-attention"
    metavar = "POSITIONS"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the number."""
        if not text.strip().isdecimal():
            raise UsageError(f"Invalid number of positions {text!r}. Give an integer, for example 2048.")
        return cls(int(text))

    @property
    def spelling(self) -> str:
        """The number."""
        return str(self.positions)

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Move the rotation of each layer that allows it."""
        if self.positions < 1:
            raise UsageError(f"A table cannot have {self.positions} positions. Give a positive number.")
        decoder, moved, kept = found_decoder(draft), 0, dict[str, None]()
        tables: dict[tuple[str, ...], list[str]] = {}
        for node in [node for node in draft.index.main.nodes if traits_of(node.op).operands.key_counts is not None]:
            try:
                query, key = (_rotation(draft, node, slot) for slot in (0, 1))
                require(query[3:] == key[3:], "queries and keys rotate differently")
                if query.angles not in tables:
                    tables[query.angles] = _stored(draft, self._tables(draft, decoder, query.angles))
            except ConditionFailed as why:
                kept[str(why)] = None
                continue
            for one in (query, key):
                one.reader.input[one.slot] = one.plain
            _rotate(node, tables[query.angles], query.is_interleaved)
            moved += 1
        if not moved:
            kept.pop(NONE, None)
            return (f"rotary embeddings stay outside of the attentions: {'; '.join(kept)}",) if kept else ()
        draft.changed()
        prune(draft)
        said = f"{format_count(moved, 'attention')} with tables of {self.positions:,} positions"
        draft.claim.decodes = True
        return (said, f"input {decoder.positions!r} is gone") if _drop_positions(draft, decoder) else (said,)

    def _tables(self, draft: ModelDraft, decoder: Decoder, angles: tuple[str, ...]) -> list[np.ndarray]:
        """Cos and sin of each position, [positions, half the rotated size].  Raises ConditionFailed."""
        given = {} if decoder.positions is None else {decoder.positions: np.arange(self.positions)[None]}
        names = decoder.ids, decoder.caches[0].past_key
        tokens, past = (draft.shapes.shape(draft.index.main, name) or () for name in names)
        sizes = dict.fromkeys(symbols(tokens[0]), 1)
        sizes |= dict.fromkeys(symbols(past[ROWS]), 0) | dict.fromkeys(symbols(tokens[1]), self.positions)
        values = [ComputedTensor(draft.index, name, given).value(sizes) for name in angles]
        picked = [value[indices] for value in values[:2] for indices in values[2:]] or values
        made = [array.reshape(-1, array.shape[-1]) for array in picked]
        require(len(made[0]) == self.positions, "its angles depend on more than positions")
        require(made[0].shape[1] % _BLOCK == 0, f"it rotates {2 * made[0].shape[1]} numbers, not a multiple of 16")
        return made


def _rotation(draft: ModelDraft, attention: Node, slot: int) -> _Rotation:
    """The rotary embedding in front of an input of an attention.  Raises ConditionFailed if there is none."""
    main, reader, node = draft.index.main, attention, draft.index.main.producers.get(attention.inputs[slot])
    while node is not None and _only_moves(draft, node):
        reader, slot, node = node, 0, main.producers.get(node.inputs[0])
    lookups = traits_of(node.op).indexing.lookups if node is not None else ()
    if node is None or not lookups or not traits_of(node.op).shape.same_type_as_input:
        raise ConditionFailed(NONE)
    numbers = {item.name: helper.get_attribute_value(item) for item in node.proto.attribute}
    others = {name for name, value in numbers.items() if value and name not in _KNOWN}
    require(not others and numbers.get("scale", 1) == 1, f"it has {', '.join(sorted(others)) or 'a scale'}")
    slots = lookups[0].table, lookups[0].table + 1, lookups[0].indices
    angles = tuple(node.inputs[place] for place in slots if place < len(node.inputs) and node.inputs[place])
    is_interleaved = numbers.get("interleaved", 0) == 1
    return _Rotation(reader.proto, slot, plain=node.inputs[0], angles=angles, is_interleaved=is_interleaved)


def _only_moves(draft: ModelDraft, node: Node) -> bool:
    """Whether a node moves all elements of its input, which no other node reads."""
    main, name = draft.index.main, node.outputs[0]
    before, after = (draft.shapes.shape(main, one) for one in (node.inputs[0], name))
    is_whole = before is not None and after is not None and product(before) == product(after)
    return is_whole and traits_of(node.op).data.copies_elements == (0,) and len(main.readers(name)) == 1


def _stored(draft: ModelDraft, tables: list[np.ndarray]) -> list[str]:
    """The names of new initializers for cos and sin."""
    names = [draft.fresh(f"{kind}_cache") for kind in ("cos", "sin")]
    draft.store(*(numpy_helper.from_array(array, name) for array, name in zip(tables, names, strict=True)))
    return names


def _rotate(attention: Node, tables: list[str], is_interleaved: bool) -> None:
    """Let an attention rotate by tables."""
    proto, first = attention.proto, traits_of(attention.op).indexing.lookups[0].table
    proto.input.extend([""] * (first + len(tables) - len(proto.input)))
    proto.input[first : first + len(tables)] = tables
    settings = {"do_rotary": 1, "rotary_interleaved": int(is_interleaved)}
    filter_repeated(proto.attribute, lambda _, item: item.name not in settings)
    proto.attribute.extend(helper.make_attribute(name, value) for name, value in settings.items())


def _drop_positions(draft: ModelDraft, decoder: Decoder) -> bool:
    """Remove the input of positions if nothing reads its values; its shape is that of the ids."""
    main, shape, name = draft.index.main, draft.shapes.shape, decoder.positions
    if name is None:
        return False
    uses = list(main.uses(name))
    is_alike = shape(main, name) == shape(main, decoder.ids)
    if not all(is_alike and slot < traits_of(node.op).shape.reads_only_shape for node, slot in uses):
        return False
    for node, slot in uses:
        node.proto.input[slot] = decoder.ids
    filter_repeated(draft.graph.input, lambda _, port: port.name != name)
    draft.changed()
    return True
