"""A rotary embedding as one node that reads the matched tables."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ._computed_tables import OpTables, heads_of, merged_size, op_tables
from ._decomposed_rotary import DecomposedRotary
from ._rotary_halves import INTERLEAVED


def emit_rotary(g: Graph, m: DecomposedRotary, write: Callable[..., Tensor]) -> Tensor:
    """Write the rotated heads with an op. write: writes the op for [batch, head, row, column] or for joined heads."""
    found, (*ahead, heads, columns) = op_tables(g, m), m.sizes
    x, attributes = heads_of(g, m), {"interleaved": 1} if m.axis == INTERLEAVED else {}
    if m.cut_at != m.axis:
        end = np.iinfo(np.int64).max
        x = g.concat(*(g.slice(x, [at], [end], [-1], [2]) for at in (0, 1)), axis=-1)
    x = x if m.wide is None else g.cast(x, to=m.wide)
    has_batch = len(m.shape) == 4
    x = x if has_batch else g.unsqueeze(x, [0])
    if found.is_apart:  # as rows of one head
        rows = g.reshape(x, [0, 1, merged_size(ahead[1], heads), columns])
        made = write(g, rows, found, columns, **attributes)
        made = g.reshape(made, [0, ahead[1], heads if isinstance(heads, int) else -1, columns])
    elif found.rows == 2:
        made = write(g, x, found, columns, **attributes)
    else:
        require(isinstance(heads, int), "the number of heads is unknown")
        rows = g.reshape(x, [0, 0, heads * columns])
        made = g.reshape(write(g, rows, found, columns, num_heads=heads, **attributes), [0, 0, heads, columns])
    made = made if has_batch else g.squeeze(made, [0])
    beside = [part for part in (m.front, made, m.behind) if part is not None]
    return in_shape(g, m, made) if len(beside) == 1 else g.concat(*beside, axis=-1)


def in_shape(g: Graph, m: DecomposedRotary, made: Tensor) -> Tensor:
    """Return the rotated heads in the shape of the original result."""
    if m.y is None or m.y.shape == m.shape:
        return made
    require(m.y.shape is not None, "the shape of the result is unknown")
    own = (*m.shape, *[None] * m.y.rank)
    pairs = zip(m.y.shape, own, strict=False)
    shape = [0 if size == one else size if isinstance(size, int) else -1 for size, one in pairs]
    require(shape.count(-1) < 2, "several sizes of the result are dynamic")
    return g.reshape(made, shape)


def emit_ort_rotary(g: Graph, x: Tensor, found: OpTables, size: int, **attributes: int) -> Tensor:
    """com.microsoft::RotaryEmbedding with these tables."""
    if found.is_one:
        places: Any = np.zeros(1, np.int64)
    else:
        rows = g.slice(g.shape(found.cos), [0], [2], [0])
        count = g.reduce_prod(rows, axes=[0], keepdims=0)
        places = g.reshape(g.range(np.int64(0), count, np.int64(1)), rows)
    cosine, sine = (
        item.reshape(-1, size // 2) if isinstance(item, np.ndarray) else g.reshape(item, [-1, size // 2])
        for item in (found.cos, found.sin)
    )
    return g.ms_rotary_embedding(x, places, cosine, sine, **attributes)


def broadcast_to_batch(g: Graph, x: Tensor, rows: Iterable[Any]) -> list[Tensor]:
    """Expand rows of tables that a batch shares to the batch of x."""
    return [g.spread(item, [g.size_of(x, 0), 1, 1]) for item in rows]


def emit_onnx_rotary(g: Graph, x: Tensor, found: OpTables, size: int, **attributes: int) -> Tensor:
    """RotaryEmbedding with these tables."""
    rows = broadcast_to_batch(g, x, (found.cos, found.sin)) if found.is_one else (found.cos, found.sin)
    return g.rotary_embedding(x, *rows, **attributes)
