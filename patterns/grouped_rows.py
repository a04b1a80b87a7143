"""Grouped-query attention (Ainslie et al., arXiv:2305.13245) without copies: heads that share keys as rows of one."""

from surgeon import Graph, Tensor, require, rule
from ._attention import NON_FINITE
from ._heads import MEANT, OverHeads, are_groups, of_copies, rows_of
from ._layouts import in_dtype


def repeated_bias(g: Graph, bias: Tensor, heads: int, groups: int) -> Tensor:
    """What is added to the scores, for rows that are those of all heads of a group, one head after the other."""
    require(bias.rank == 4, "the mask has other axes than batch, head, row, column")
    require(bias.shape[1] in (1, heads), f"the mask has {bias.shape[1]} heads where the queries have {heads}")
    if bias.shape[1] == 1:
        return g.tile(bias, [1, 1, heads // groups, 1])
    return g.reshape(bias, [0, groups, -1, 0])


@rule(patterns=[of_copies], conditions=[are_groups], differs={"non_finite": NON_FINITE})
def grouped_rows(g: Graph, m: OverHeads) -> Tensor:
    """Let heads of queries that share keys and values be rows of one head, so that nothing is copied for them.

    What: MultiHeadAttention over copies of keys and values becomes one over the originals, where q of
    [batch, rows, groups · copies · columns] is read as [batch, copies · rows, groups · columns]; each row attends on
    its own, so it does not matter to which head it belongs.
    Numerics: rounding only, for finite numbers.
    """
    others = m.attributes.keys() - MEANT
    require(not others, f"{', '.join(sorted(others))} would mean something else for these rows")
    heads, groups, copies = m.attributes["num_heads"], m.k.heads, m.k.number
    require(heads == groups * copies, "the copies are not the heads of the attention")
    columns, width = m.k.columns, m.v.columns
    require(isinstance(columns, int) and isinstance(width, int), "the size of a head is unknown")
    require(m.q.shape is not None and m.q.shape[2:] == (heads * columns,), "the queries are not joined head by head")
    rows = m.q.shape[1] if isinstance(m.q.shape[1], int) else -1
    split = g.transpose(g.reshape(m.q, [0, 0, groups, copies, columns]), perm=[0, 3, 1, 2, 4])
    ours = g.reshape(split, [0, rows * copies if rows >= 0 else -1, groups * columns])
    keys, values = (in_dtype(g, rows_of(g, x), m.q.dtype, x.dtype) for x in (m.k.x, m.v.x))
    bias = None if m.bias is None else repeated_bias(g, m.bias, heads, groups)
    numbers = {**m.attributes, "num_heads": groups}
    made = g.ms_multi_head_attention(ours, keys, values, attention_bias=bias, **numbers)
    back = g.transpose(g.reshape(made, [0, copies, rows, groups, width]), perm=[0, 2, 3, 1, 4])
    return g.reshape(back, [0, 0, heads * width])
