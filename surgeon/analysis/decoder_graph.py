"""Decoders of text, as found in their graphs: tokens, mask, positions, scores of tokens, and caches.

A cache is an input to which the graph appends new rows of keys or values, and which it returns as an output.  It is
found in the nodes: the output is a Concat of the input and new rows, or an attention reads the one and makes the other.
Names decide nothing.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from onnx import TensorProto, TensorShapeProto, ValueInfoProto

from surgeon.analysis.input_roles import InputRoles
from surgeon.errors import ConditionFailed, Unavailable, require
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traits.dtype_traits import PERIODIC
from surgeon.ops.traits.op_traits import EVERY, DataTraits, OpTraits
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.constraints.input_dims import required_inputs
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.tensor_types import FLOATS, INTEGERS_AND_BOOL
from surgeon.text import format_count

_CACHE, _LOGITS, _TABLE, _IDS = 4, 3, 2, 2  # numbers of axes
ROWS = 2  # the axis of a cache that grows
_LAYOUT = "[batch, heads, rows, size]"
_PRODUCTS = ("matmul", "einsum", "attention")  # ops that read keys and values


class KVCache(NamedTuple):
    """The cached keys and values of one layer, each [batch, heads, rows, size]."""

    past_key: str
    """Input with the keys of past tokens."""
    past_value: str
    """Input with their values."""
    present_key: str
    """Output with the keys of past and new tokens."""
    present_value: str
    """Output with their values."""
    heads: int
    """Heads of keys and values."""
    size: int
    """Numbers per head."""
    dtype: int
    """A value of `TensorProto.DataType`."""
    op: str
    """The op that appends new rows: Concat, or an attention."""


class Decoder(NamedTuple):
    """The inputs and outputs of a decoder, by their use."""

    ids: str
    """Input of new token ids [batch, rows]."""
    mask: str | None
    """Input with a one for each past or new token that counts."""
    positions: str | None
    """Input with the positions of the new tokens."""
    logits: str
    """Output with a score for each token of the vocabulary [batch, rows, vocabulary]."""
    caches: tuple[KVCache, ...]
    """Per layer, in the order in which the layers run."""
    vocabulary: int
    """Number of tokens."""
    width: int | None
    """Numbers per token after the embedding; None if unknown."""
    query_heads: int | None = None
    """Heads of queries; None if the graph does not say it."""
    position_rows: int | None = None
    """Rows of the table that the positions index, or of the angles of attentions; None without a table."""


class _Appended(NamedTuple):
    """An output that is an input with new rows."""

    past: str
    """The input."""
    present: str
    """The output."""
    node: Node
    """The node that appends the rows."""
    is_key: bool
    """Whether the rows are keys; otherwise they are values."""


def decoder_of(index: Index) -> Decoder | Unavailable:
    """The decoder that a graph is, or why it is none.

    Args:
        index: the model.

    Returns:
        The decoder, or the reason as a clause.

    Examples:
        >>> import onnx
        >>> from surgeon.analysis.decoder_graph import decoder_of
        >>> from surgeon.ir.index import Index
        >>> model = onnx.load("notebooks/models/tiny_distilbert.onnx", load_external_data=False)
        >>> decoder_of(Index.over(model)).reason
        'no output is an input with new rows appended'
    """
    try:
        return _GraphReading(index).decoder()
    except ConditionFailed as reason:
        return Unavailable(str(reason))


class _GraphReading:
    """A graph that may be a decoder.  Its methods raise ConditionFailed if it is none."""

    def __init__(self, index: Index) -> None:
        self._index, self._main, self._shapes = index, index.main, shapes_of(index)
        graph = index.model.skeleton.graph
        self._inputs = required_inputs(graph)
        self._declared = {value.name: value for value in (*graph.output, *self._inputs.values())}
        self._roles = InputRoles(index)

    def decoder(self) -> Decoder:
        """The decoder."""
        outputs = self._main.output_names
        found = {name: made for name in outputs if (made := self._appended(name)) is not None}
        require(found, "no output is an input with new rows appended")
        caches = tuple(self._caches(list(found.values())))
        logits = self._logits([name for name in outputs if name not in found])
        held = {made.past for made in found.values()}
        others = [name for name in self._inputs if name not in held]
        self._require_tokens(others)
        ids, table = self._ids(others, logits)
        rest = [name for name in others if name != ids]
        unread = [name for name in rest if not self._main.is_read(name)]
        positions = self._single([name for name in rest if self._is_position(name)], "positions")
        mask = self._single([name for name in rest if name not in (positions, *unread)], "a mask")
        for name in unread:  # the client gives it all the same
            is_mask = mask is None and (positions is not None or self._dims(name) != self._dims(ids))
            mask, positions = (name, positions) if is_mask else (mask, self._single([name, positions], "positions"))
        vocabulary = self.sizes(logits)[-1] or table[0]
        if vocabulary is None:
            raise ConditionFailed(f"the size of the vocabulary is unknown: neither {logits!r} nor a table has it")
        appending = [one.node for one in found.values()]
        rows = self._angle_rows(appending) if positions is None else self._position_rows(positions)
        heads = self._query_heads(one.node for one in found.values() if one.is_key)
        known = Decoder(ids, mask, positions, logits, caches=caches, vocabulary=vocabulary, width=table[1])
        return known._replace(query_heads=heads, position_rows=rows)

    def sizes(self, name: str) -> list[int | None]:
        """The sizes of a tensor; None for dynamic ones.  Exporters write fixed sizes as names too ("16")."""
        inferred: Sequence[object] = self._shapes.shape(self._main, name) or ()
        value = self._declared.get(name)
        stated = self._dims(name) if value is not None and value.type.tensor_type.HasField("shape") else list(inferred)
        known = [_number(size) for size in stated]
        if len(inferred) == len(known):
            known = [_number(other) if size is None else size for size, other in zip(known, inferred, strict=True)]
        return known

    def _dims(self, name: str) -> list[object]:
        """The dims of an input or output as declared."""
        return [_dim(dim) for dim in self._declared[name].type.tensor_type.shape.dim]

    def _dtype(self, name: str) -> int:
        """The dtype of an input or output."""
        value: ValueInfoProto | None = self._declared.get(name)
        return 0 if value is None else int(value.type.tensor_type.elem_type)

    def _origin(self, name: str) -> str:
        """The tensor before Identity ops, and before Concats with nothing else, as TorchScript writes them."""
        while (node := self._main.producers.get(name)) is not None:
            kept = [read for read in node.inputs if not self._is_empty(read)] if _joins(node) else node.inputs
            if not (len(kept) == 1 and (_joins(node) or _data(node).identity_when == "always")):
                break
            name = kept[0]
        return name

    def _is_empty(self, name: str) -> bool:
        """Whether a tensor is a constant without elements."""
        value = self._index.constants.array(self._main, name)
        return value is not None and value.size == 0

    def _appended(self, output: str) -> _Appended | None:
        """The input that an output extends by new rows; None if it extends none."""
        source = self._origin(output)
        node = self._main.producers.get(source)
        if node is None:
            return None
        reads = traits_of(node.op).products.attention_inputs
        if reads is not None and source in node.outputs[1:3]:
            is_key = source == node.outputs[1]
            slot = reads.past_key if is_key else reads.past_value
            past = node.inputs[slot] if slot is not None and slot < len(node.inputs) else ""
        elif _joins(node):
            past, is_key = node.inputs[0], False
        else:
            return None
        past = self._origin(past)
        self._require_same_dtype(past, output)
        if past not in self._inputs:
            return None
        if reads is None:
            axis = self._axis(node, past)
            if axis is None:
                return None
            require(axis == ROWS, f"cache {past!r} grows along axis {axis}, but {_LAYOUT} grows along axis {ROWS}")
            is_key = self._is_key(source)
        return _Appended(past, output, node, is_key)

    def _require_same_dtype(self, past: str, output: str) -> None:
        """Require that an output has the dtype of the cache whose rows are in it, so that the next step can read it."""
        cast = self._main.producers.get(past)
        if cast is None or not traits_of(cast.op).dtype.is_cast or self._dtype(output) not in FLOATS:
            return
        cache = self._origin(cast.inputs[0])
        one, other = (dtype_name(self._dtype(name)) for name in (cache, output))
        is_cache = cache in self._inputs and len(self.sizes(cache)) == _CACHE
        require(not is_cache or one == other, f"cache {cache!r} is {one}, but {output!r} with its new rows is {other}")

    def _require_tokens(self, names: Sequence[str]) -> None:
        """Require that inputs other than caches hold indices or flags of tokens."""
        odd = [name for name in names if self._dtype(name) not in INTEGERS_AND_BOOL and len(self.sizes(name)) != _IDS]
        for name in odd:
            if self._is_only_attended(name):
                raise ConditionFailed(f"cross-attention reads input {name!r}, to which no node appends new rows")
        for name in odd:
            numbers = "numbers such as the states of an encoder for cross-attention"
            kinds = "token ids, a mask, positions or a cache with new rows"
            raise ConditionFailed(f"input {name!r} holds {numbers}, rather than {kinds}")

    def _is_only_attended(self, name: str) -> bool:
        """Whether an input holds keys or values to which no node appends rows."""
        uses = list(self._uses_after_moves(name)) if len(self.sizes(name)) == _CACHE else []
        grows = any(_joins(node) and self._origin(node.outputs[0]) == node.outputs[0] for node, _, _ in uses)
        return not grows and any(traits.products.kind in _PRODUCTS for _, _, traits in uses)

    def _axis(self, node: Node, past: str) -> int | None:
        """The axis along which a Concat appends to a cache; None if the input is too small to be one."""
        axis, count = node.attribute("axis"), len(self.sizes(past))
        return None if axis is None or count != _CACHE else int(axis.i) % count

    def _is_key(self, rows: str) -> bool:
        """Whether cached rows are keys: the queries are multiplied by them before the softmax.

        Values are multiplied by the result of a softmax.
        """
        for node, slot, traits in self._uses_after_moves(rows):
            reads = traits.products.attention_inputs
            if reads is not None:
                return slot == reads.key
            if traits.products.kind in ("matmul", "einsum"):
                return not any(self._is_after_softmax(name) for at, name in enumerate(node.inputs) if at != slot)
        raise ConditionFailed(f"nothing multiplies the cached rows {rows!r}, so they are neither keys nor values")

    def _uses_after_moves(self, name: str) -> Iterator[tuple[Node, int, OpTraits]]:
        """The uses of a tensor, and of those that hold the same numbers at other positions, in another dtype or scaled.
        """
        pending, seen = [name], {name}
        while pending:
            for node, slot in self._main.uses(pending.pop()):
                traits = traits_of(node.op)
                yield node, slot, traits
                is_scaled = traits.algebra.family == "product" and traits.shape.broadcasts
                if (slot in traits.data.carried or is_scaled) and not traits.products.kind:
                    pending += [output for output in node.outputs if output and output not in seen]
                    seen.update(node.outputs)

    def _is_after_softmax(self, name: str) -> bool:
        """Whether a tensor is the result of a softmax, with only elementwise ops and moves in between."""
        pending, seen = [name], {name}
        while pending:
            node = self._main.producers.get(pending.pop())
            traits = None if node is None else traits_of(node.op)
            if node is None or traits is None or traits.products.kind or traits.shape.reads_only_shape:
                continue
            if traits.numerics.is_softmax:
                return True
            pending += [read for read in node.inputs if read and read not in seen]
            seen.update(node.inputs)
        return False

    def _caches(self, found: Sequence[_Appended]) -> Iterator[KVCache]:
        """The caches by layer: a layer's keys and values are extended before those of the next, in any order of nodes.
        """
        order = sorted(found, key=lambda made: made.node.slot)
        keys, values = ([made for made in order if made.is_key is kind] for kind in (True, False))
        counts = f"{format_count(len(keys), 'cache')} of keys, but {len(values)} of values"
        require(len(keys) == len(values), f"the graph has {counts}")
        pasts = [made.past for made in order]
        twice = next((past for past in pasts if pasts.count(past) > 1), "")
        require(not twice, f"two outputs are {twice!r} with new rows")
        for key, value in zip(keys, values, strict=True):
            sizes, others = (self._cache_sizes(made) for made in (key, value))
            require(sizes == others, f"keys {key.past!r} and values {value.past!r} differ in heads or size")
            names = key.past, value.past, key.present, value.present
            yield KVCache(*names, *sizes, dtype=self._dtype(key.past), op=key.node.op)

    def _cache_sizes(self, made: _Appended) -> tuple[int, int]:
        """The heads and the size of a cache."""
        pasts, presents = self.sizes(made.past), self.sizes(made.present)
        require(len(pasts) == len(presents) == _CACHE, f"cache {made.past!r} has {len(pasts)} axes, not {_CACHE}")
        require(pasts[ROWS] is None, f"cache {made.past!r} has a fixed number of rows, {pasts[ROWS]}")
        heads, _, size = (a if a is not None else b for a, b in zip(pasts[1:], presents[1:], strict=True))
        if heads is None or size is None:
            raise ConditionFailed(f"the heads or the size of cache {made.past!r} are not fixed")
        return heads, size

    def _logits(self, outputs: Sequence[str]) -> str:
        """The output with scores of tokens."""
        found = [name for name in outputs if len(self.sizes(name)) == _LOGITS and self._dtype(name) in FLOATS]
        require(found, "no output has scores of tokens [batch, rows, vocabulary]")
        require(len(found) == 1, f"several outputs may be scores of tokens: {', '.join(found)}")
        return found[0]

    def _ids(self, names: Sequence[str], logits: str) -> tuple[str, tuple[int | None, int | None]]:
        """The input of tokens, with the size of their table: of several that are looked up, that of the vocabulary."""
        tables = {name: table for name in names if (table := self._table(name)) is not None}
        require(tables, "no input is looked up in a table of embeddings, so it has no token ids")
        size = self.sizes(logits)[-1]
        found = [name for name, (rows, _) in tables.items() if len(tables) == 1 or rows == size]
        require(len(found) == 1, f"it is not clear which input holds token ids: {', '.join(tables)}")
        return found[0], tables[found[0]]

    def _table(self, name: str) -> tuple[int | None, int | None] | None:
        """The size of the table of embeddings that an input is looked up in; None if there is none."""
        for node, slot, traits in self._uses_after_moves(name):
            for lookup in traits.indexing.lookups:
                sizes = self.sizes(node.inputs[lookup.table]) if lookup.table < len(node.inputs) else []
                if slot == lookup.indices and len(sizes) == _TABLE and not _turns(node):
                    made = self.sizes(node.outputs[0])
                    return sizes[0], made[-1] if made else sizes[1]
        return None

    def _is_position(self, name: str) -> bool:
        """Whether an input is looked up, or an angle is computed from it, without a sum or a comparison in between."""
        pending, seen = [name], {name}
        while pending:
            for node, slot in self._main.uses(pending.pop()):
                traits = traits_of(node.op)
                if node.op in PERIODIC or slot in [lookup.indices for lookup in traits.indexing.lookups]:
                    return True
                is_choice = traits.numerics.is_softmax or traits.numerics.is_argsort_like
                ends = traits.dtype.returns_bool, traits.shape.reads_only_shape, is_choice
                sums = traits.numerics.reduces or (traits.numerics.accumulates and not traits.products.kind)
                to = node.attribute("to") if traits.dtype.is_cast else None
                is_truth = to is not None and to.i == TensorProto.BOOL
                if not (any(ends) or sums or is_truth or traits.products.kind == "attention"):
                    pending += [output for output in node.outputs if output and output not in seen]
                    seen.update(node.outputs)
        return False

    def _position_rows(self, positions: str) -> int | None:
        """The number of positions that a table has; None without a table."""
        limits = self._roles.of_input(positions).limits
        return min((limit.table - limit.shift for limit in limits if isinstance(limit.table, int)), default=None)

    def _angle_rows(self, nodes: Iterable[Node]) -> int | None:
        """The number of positions for which attentions have angles of rotary embeddings; None without tables."""
        slots = ((node.inputs, lookup.table) for node in nodes for lookup in traits_of(node.op).indexing.lookups)
        rows = (self.sizes(inputs[slot])[0] for inputs, slot in slots if slot < len(inputs) and inputs[slot])
        return min((count for count in rows if count is not None), default=None)

    def _query_heads(self, nodes: Iterable[Node]) -> int | None:
        """The number of heads of the queries, which all layers share; None if it is unknown or differs."""
        found = {self._heads_at(node) for node in nodes}
        return found.pop() if len(found) == 1 else None

    def _heads_at(self, node: Node) -> int | None:
        """The number of heads of the queries that read the keys of a node."""
        uses = self._uses_after_moves(node.outputs[0]) if _joins(node) else [(node, 0, traits_of(node.op))]
        for user, slot, traits in uses:
            if traits.products.kind == "attention":
                given = user.attribute("num_heads") or user.attribute("q_num_heads")
                sizes = self.sizes(user.inputs[0])
                return int(given.i) if given is not None else sizes[1] if len(sizes) == _CACHE else None
            if traits.products.kind in ("matmul", "einsum"):
                _, *heads = self.sizes(user.inputs[1 - slot])[:-2] or [None]
                known = [size for size in heads if size is not None]
                return math.prod(known) if known and len(known) == len(heads) else None
        return None

    @staticmethod
    def _single(given: Sequence[str | None], what: str) -> str | None:
        """The only input of a kind; None without one."""
        names = [name for name in given if name is not None]
        require(len(names) <= 1, f"several inputs may hold {what}: {', '.join(names)}")
        return names[0] if names else None


def _data(node: Node) -> DataTraits:
    """The sources of the elements of a node's outputs."""
    return traits_of(node.op).data


def _joins(node: Node) -> bool:
    """Whether a node joins its inputs along an axis."""
    return _data(node).copies_elements == EVERY and node.attribute("axis") is not None


def _turns(node: Node) -> bool:
    """Whether a node looks up angles of rotary embeddings rather than embeddings."""
    traits = traits_of(node.op)
    return traits.shape.same_type_as_input or traits.products.kind == "attention"


def _dim(dim: TensorShapeProto.Dimension) -> object:
    """A declared dim."""
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param


def _number(size: object) -> int | None:
    """A size as a number, also if its name consists of digits; None for a dynamic one."""
    return size if isinstance(size, int) else int(text) if (text := str(size).strip()).isdecimal() else None
