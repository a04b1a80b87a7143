"""Projections and heads whose rows precede the batch, as in torch.nn.MultiheadAttention.

The rules swap rows and batch at the end of each, so that the consumers have the batch first, and Transposes cancel.
"""

from surgeon import Captures, Constant, Graph, Tensor, dims, require, rule

BATCH_SEQUENCE_PERM = [1, 0, 2]  # rows before the batch, and back


def swap_batch_and_sequence(g: Graph, x: Tensor) -> Tensor:
    """Swap the rows and the batch."""
    return g.transpose(x, perm=BATCH_SEQUENCE_PERM)


class Stacked(Captures):
    """Parts of the columns of x on a new axis, which is moved to the front, and the selected part."""

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
    """Slice queries, keys and values from their projection, instead of moving their axis to the front.

    What: a projection that is reshaped to [rows, batch, parts, columns], and split by Gather after a Transpose.
    Numerics: none.
    """
    return g.cut(m.x, m.count, -1)[int(m.index.values) % m.count]


class SequenceFirstHeads(Captures):
    """[rows, batch, columns] x as heads: in one axis with the batch, then moved (perm), then split from it (y)."""

    x: Tensor = dims("rows batch heads*size")
    one: Tensor = dims("rows _ size")
    y: Tensor = dims("batch heads _ _")
    perm: list[int]
    heads: int
    size: int


def heads_of_batch(g: Graph, m: SequenceFirstHeads) -> Tensor:
    """Heads that are in one axis with the batch."""
    m.one = g.reshaped(m.x)
    m.y = g.reshaped(g.transpose(m.one, perm=m.perm))
    return m.y


@rule(patterns=[heads_of_batch], target="any")
def sequence_first_heads(g: Graph, m: SequenceFirstHeads) -> Tensor:
    """Split rows into heads after the batch is moved to the front, instead of merging the heads with the batch.

    What: [rows, batch, columns] that becomes [batch, heads, rows, size] through [rows, batch · heads, size], or [batch,
    heads, size, rows].
    Numerics: none.
    """
    require(m.perm in ([1, 0, 2], [1, 2, 0]), "the Transpose must swap rows and heads")
    sides = (m.rows, m.size) if m.perm == BATCH_SEQUENCE_PERM else (m.size, m.rows)
    require(tuple(m.y.shape[2:]) == sides, "the heads must have the rows and columns of x")
    heads = g.split_heads(swap_batch_and_sequence(g, m.x), m.heads, m.size)
    return heads if m.perm == BATCH_SEQUENCE_PERM else g.transpose(heads, perm=[0, 1, 3, 2])


class JoinedHeads(Captures):
    """[batch, rows, columns] x, with heads that are split, moved to [rows, batch, heads, size], and joined to y."""

    x: Tensor = dims("batch rows heads*size")
    moved: Tensor = dims("rows batch heads size")
    y: Tensor = dims("rows batch heads*size", "_ heads*size")
    heads: int
    size: int


def joined_rows(g: Graph, m: JoinedHeads) -> Tensor:
    """Joined heads, in rows before the batch."""
    m.moved = g.transpose(g.reshaped(m.x), perm=[1, 0, 2, 3])
    m.y = g.reshaped(m.moved)
    return m.y


@rule(patterns=[joined_rows], target="any")
def sequence_first_output(g: Graph, m: JoinedHeads) -> Tensor:
    """Swap rows and batch without splitting the heads.

    What: [batch, rows, columns] that is split into heads and becomes [rows, batch, columns], or a matrix of these.
    Numerics: none.
    """
    made = swap_batch_and_sequence(g, m.x)
    return made if m.y.rank == 3 else g.reshape(made, [-1, m.heads * m.size])
