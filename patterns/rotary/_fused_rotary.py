"""A rotary embedding as one node of ONNX Runtime or ONNX, and the same written as the other or in parts."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require
from ._emit_rotary import broadcast_to_batch

SAID = {"interleaved", "num_heads", "rotary_embedding_dim"}
OFF = {"scale": 1.0, "is_packed_batching": 0}


class FusedRotary(Captures):
    """How one node turns x: rows of tables for all places, and the places, unless they are the input's own.

    standard: what it makes, where it is ONNX's own.
    """

    x: Tensor
    cos: Tensor
    sin: Tensor
    places: Tensor | Any = None
    standard: Tensor | Any = None
    attributes: dict[str, Any]


def ort_rotary(g: Graph, m: FusedRotary, x: Tensor, **more: int) -> Tensor:
    """com.microsoft::RotaryEmbedding of x."""
    return g.ms_rotary_embedding(x, m.places, m.cos, m.sin, **{**m.attributes, **more})


def onnx_rotary(g: Graph, m: FusedRotary, x: Tensor) -> Tensor:
    """RotaryEmbedding of x."""
    m.standard = g.rotary_embedding(x, m.cos, m.sin, m.places, **m.attributes)
    return m.standard


def ort_rotary_node(g: Graph, m: FusedRotary) -> Tensor:
    """com.microsoft::RotaryEmbedding."""
    return ort_rotary(g, m, m.x)


def onnx_rotary_node(g: Graph, m: FusedRotary) -> Tensor:
    """RotaryEmbedding."""
    return onnx_rotary(g, m, m.x)


def sizes_of(m: FusedRotary) -> tuple[int, int, int]:
    """How many heads there are, how large each is, and how much of it is turned."""
    x, numbers = m.x, m.attributes
    more = {name for name in set(numbers) - SAID if name not in OFF or numbers[name] != OFF[name]}
    require(not more, f"nothing else has {', '.join(sorted(more))}")
    require(x.rank in (3, 4), "the input has other axes than batch, head, row, column")
    half: Any = m.cos.shape[-1] if m.cos.shape else None
    require(isinstance(half, int), "the size of the tables is unknown")
    part = numbers.get("rotary_embedding_dim", 0)
    if x.rank == 4:
        heads, size = x.shape[1], x.shape[3]
    else:
        width = x.shape[2]
        require(isinstance(width, int), "the size of the input is unknown")
        heads = numbers.get("num_heads", 0) or width // (2 * half)
        require(heads > 0, "the tables are for more than the input has")
        size = width // heads
    require(isinstance(heads, int) and isinstance(size, int), "the number of heads, or their size, is unknown")
    require(2 * half == (part or size), "the tables are not for half of what is turned")
    return heads, size, part or size


def table_rows(g: Graph, m: FusedRotary) -> list[Tensor]:
    """The two tables' rows for the places: [batch, row, column], or of a batch of one for all."""
    tables, places, x = [m.cos, m.sin], m.places, m.x
    if places is None:
        return tables
    require(places.shape is not None, "the shape of the places is unknown")
    if places.rank == 2:
        return [g.gather(table, places, axis=0) for table in tables]
    require(places.shape == (1,), "the places are neither a first one nor those of each row")
    axis = x.rank - 2
    end = g.add(places, g.size_of(x, axis))
    return [g.unsqueeze(g.slice(table, places, end, [0]), [0]) for table in tables]


def to_onnx_rotary(g: Graph, m: FusedRotary) -> Tensor:
    """The same as RotaryEmbedding."""
    heads, size, part = sizes_of(m)
    numbers: dict[str, Any] = {"num_heads": heads if m.x.rank == 3 else None}
    numbers["rotary_embedding_dim"] = part if part < size else None
    inputs = (m.cos, m.sin, m.places) if m.places.rank == 2 else broadcast_to_batch(g, m.x, table_rows(g, m))
    return g.rotary_embedding(m.x, *inputs, interleaved=m.attributes.get("interleaved", 0), **numbers)


def decompose_rotary(g: Graph, m: FusedRotary) -> Tensor:
    """The same in primitives."""
    heads, size, part = sizes_of(m)
    x = m.x
    rows = [g.unsqueeze(row, [1 if x.rank == 4 else 2]) for row in table_rows(g, m)]
    whole = x if x.rank == 4 else g.reshape(x, [0, 0, heads, size])
    made = turned_heads(g, whole, rows, size=size, part=part, is_pairs=bool(m.attributes.get("interleaved", 0)))
    return made if x.rank == 4 else g.reshape(made, [0, 0, heads * size])


def turned_heads(g: Graph, x: Tensor, rows: list[Tensor], size: int, part: int, *, is_pairs: bool) -> Tensor:
    """Heads of so many columns, of which so many are turned.  rows: of the two tables, with an axis for each of x."""
    cos, sin = (g.unsqueeze(row, [4]) for row in rows) if is_pairs else rows
    turned, rest = (x, None) if part == size else g.split(x, [part, size - part], axis=-1, outputs=2)
    first, second = g.cut(g.reshape(turned, [0, 0, 0, part // 2, 2]) if is_pairs else turned, 2, -1)
    parts = [g.sub(g.mul(first, cos), g.mul(second, sin)), g.add(g.mul(second, cos), g.mul(first, sin))]
    made = g.concat(*parts, axis=-1)
    made = g.reshape(made, [0, 0, 0, part]) if is_pairs else made
    return made if rest is None else g.concat(made, rest, axis=-1)
