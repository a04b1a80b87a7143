"""Projections and heads whose rows come before the batch, as torch.nn.MultiheadAttention has them.

Rows and batch change places at the end of each of them, so that what reads them finds a batch, and transposes meet.
"""

from surgeon import Captures, Constant, Graph, Tensor, dims, require, rule

BATCH_SEQUENCE_PERM = [1, 0, 2]  # rows before the batch, and back


def swap_batch_and_sequence(g: Graph, x: Tensor) -> Tensor:
    """Rows before the batch, or behind it."""
    return g.transpose(x, perm=BATCH_SEQUENCE_PERM)


class Stacked(Captures):
    """Parts of the columns of x on a new axis, moved to the front, and the part that is taken."""

    x: Tensor = dims("rows batch count*size")
    lifted: Tensor = dims("1 rows batch count size")
    index: Constant = dims("")
    count: int
    size: int


def part_of_stack(g: Graph, m: Stacked) -> Tensor:
    """One of the parts."""
    split = g.reshaped(m.x)
    m.lifted = g.any_of(g.unsqueeze(split, [0]), split)
    turned = g.shared(g.transpose(m.lifted, perm=[3, 1, 2, 0, 4]))
    return g.gather(g.shared(g.any_of(g.squeeze(turned, [3]), g.squeeze(turned, [-2]))), m.index, axis=0)


@rule(patterns=[part_of_stack], target="any")
def stacked_qkv_split(g: Graph, m: Stacked) -> Tensor:
    """Cut queries, keys and values out of their projection, instead of moving an axis of them to the front.

    What: a projection that is reshaped to [rows, batch, parts, columns], and taken apart by Gather behind a transpose.
    Numerics: none.
    """
    return g.cut(m.x, m.count, -1)[int(m.index.values) % m.count]


class SequenceFirstHeads(Captures):
    """[rows, batch, columns] x as heads: in one axis with the batch, then moved (perm), then apart from it (y)."""

    x: Tensor = dims("rows batch heads*size")
    one: Tensor = dims("rows _ size")
    y: Tensor = dims("batch heads _ _")
    perm: list[int]
    heads: int
    size: int


def heads_of_batch(g: Graph, m: SequenceFirstHeads) -> Tensor:
    """Heads that were in one axis with the batch."""
    m.one = g.reshaped(m.x)
    m.y = g.reshaped(g.transpose(m.one, perm=m.perm))
    return m.y


@rule(patterns=[heads_of_batch], target="any")
def sequence_first_heads(g: Graph, m: SequenceFirstHeads) -> Tensor:
    """Split rows into heads where they are rows of a batch, instead of merging the heads with the batch for a while.

    What: [rows, batch, columns] that becomes [batch, heads, rows, size] through [rows, batch · heads, size], or
    [batch, heads, size, rows].
    Numerics: none.
    """
    require(m.perm in ([1, 0, 2], [1, 2, 0]), "rows and heads do not change places")
    sides = (m.rows, m.size) if m.perm == BATCH_SEQUENCE_PERM else (m.size, m.rows)
    require(tuple(m.y.shape[2:]) == sides, "the heads have other rows or columns than x")
    heads = g.split_heads(swap_batch_and_sequence(g, m.x), m.heads, m.size)
    return heads if m.perm == BATCH_SEQUENCE_PERM else g.transpose(heads, perm=[0, 1, 3, 2])


class JoinedHeads(Captures):
    """[batch, rows, columns] x, whose heads are split to be moved to [rows, batch, heads, size], and joined to y."""

    x: Tensor = dims("batch rows heads*size")
    moved: Tensor = dims("rows batch heads size")
    y: Tensor = dims("rows batch heads*size", "_ heads*size")
    heads: int
    size: int


def joined_rows(g: Graph, m: JoinedHeads) -> Tensor:
    """Heads beside each other, in rows before the batch."""
    m.moved = g.transpose(g.reshaped(m.x), perm=[1, 0, 2, 3])
    m.y = g.reshaped(m.moved)
    return m.y


@rule(patterns=[joined_rows], target="any")
def sequence_first_output(g: Graph, m: JoinedHeads) -> Tensor:
    """Leave heads joined while rows and batch change places.

    What: [batch, rows, columns] that is split into heads to become [rows, batch, columns], or a matrix of these.
    Numerics: none.
    """
    made = swap_batch_and_sequence(g, m.x)
    return made if m.y.rank == 3 else g.reshape(made, [-1, m.heads * m.size])
