"""A rotary embedding as one node of ONNX Runtime or ONNX, and its conversion to the other or to primitives."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require
from ._emit_rotary import broadcast_to_batch

SAID = {"interleaved", "num_heads", "rotary_embedding_dim"}
OFF = {"scale": 1.0, "is_packed_batching": 0}


class FusedRotary(Captures):
    """The inputs of one node: x, rows of tables for all positions, and the positions, unless they are 0, 1, 2, ...

    standard: the output if the node is RotaryEmbedding (ONNX).
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
    """Return the number of heads, their size, and the size of their rotated part."""
    x, numbers = m.x, m.attributes
    more = {name for name in set(numbers) - SAID if name not in OFF or numbers[name] != OFF[name]}
    require(not more, f"unsupported attributes: {', '.join(sorted(more))}")
    require(x.rank in (3, 4), "the input must have the axes batch, row, column, or batch, head, row, column")
    half: Any = m.cos.shape[-1] if m.cos.shape else None
    require(isinstance(half, int), "the size of the tables is unknown")
    part = numbers.get("rotary_embedding_dim", 0)
    if x.rank == 4:
        heads, size = x.shape[1], x.shape[3]
    else:
        width = x.shape[2]
        require(isinstance(width, int), "the size of the input is unknown")
        heads = numbers.get("num_heads", 0) or width // (2 * half)
        require(heads > 0, "the tables have more columns than the input")
        size = width // heads
    require(isinstance(heads, int) and isinstance(size, int), "the number or the size of the heads is unknown")
    require(2 * half == (part or size), "the tables must have half as many columns as the rotated part")
    return heads, size, part or size


def table_rows(g: Graph, m: FusedRotary) -> list[Tensor]:
    """Return the rows of the two tables for the positions: [batch, row, column], with a batch of one if shared."""
    tables, places, x = [m.cos, m.sin], m.places, m.x
    if places is None:
        return tables
    require(places.shape is not None, "the shape of the positions is unknown")
    if places.rank == 2:
        return [g.gather(table, places, axis=0) for table in tables]
    require(places.shape == (1,), "the positions must be a first position, or one position for each row")
    axis = x.rank - 2
    end = g.add(places, g.size_of(x, axis))
    return [g.unsqueeze(g.slice(table, places, end, [0]), [0]) for table in tables]


def to_onnx_rotary(g: Graph, m: FusedRotary) -> Tensor:
    """Write the node as RotaryEmbedding."""
    heads, size, part = sizes_of(m)
    numbers: dict[str, Any] = {"num_heads": heads if m.x.rank == 3 else None}
    numbers["rotary_embedding_dim"] = part if part < size else None
    inputs = (m.cos, m.sin, m.places) if m.places.rank == 2 else broadcast_to_batch(g, m.x, table_rows(g, m))
    return g.rotary_embedding(m.x, *inputs, interleaved=m.attributes.get("interleaved", 0), **numbers)


def decompose_rotary(g: Graph, m: FusedRotary) -> Tensor:
    """Write the node in primitives."""
    heads, size, part = sizes_of(m)
    x = m.x
    rows = [g.unsqueeze(row, [1 if x.rank == 4 else 2]) for row in table_rows(g, m)]
    whole = x if x.rank == 4 else g.reshape(x, [0, 0, heads, size])
    made = turned_heads(g, whole, rows, size=size, part=part, is_pairs=bool(m.attributes.get("interleaved", 0)))
    return made if x.rank == 4 else g.reshape(made, [0, 0, heads * size])


def turned_heads(g: Graph, x: Tensor, rows: list[Tensor], size: int, part: int, *, is_pairs: bool) -> Tensor:
    """Rotate the first `part` of `size` columns of each head. rows: rows of the two tables, with the axes of x."""
    cos, sin = (g.unsqueeze(row, [4]) for row in rows) if is_pairs else rows
    turned, rest = (x, None) if part == size else g.split(x, [part, size - part], axis=-1, outputs=2)
    first, second = g.cut(g.reshape(turned, [0, 0, 0, part // 2, 2]) if is_pairs else turned, 2, -1)
    parts = [g.sub(g.mul(first, cos), g.mul(second, sin)), g.add(g.mul(second, cos), g.mul(first, sin))]
    made = g.concat(*parts, axis=-1)
    made = g.reshape(made, [0, 0, 0, part]) if is_pairs else made
    return made if rest is None else g.concat(made, rest, axis=-1)
