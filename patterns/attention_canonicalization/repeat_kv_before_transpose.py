"""Copies of heads of keys and values that are made while the heads stand behind the rows."""

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule


class Copies(Captures):
    """Heads x behind batch and rows, with an axis for copies of each, these beside each other, and how they move."""

    x: Tensor = dims("batch rows heads columns")
    spread: Tensor = dims("batch rows heads copies columns")
    made: Tensor = dims("batch rows heads*copies columns")
    perm: list[int]
    heads: int
    copies: int
    columns: int


def behind_rows(g: Graph, m: Copies) -> Tensor:
    """Each head several times, and moved in front of the rows then."""
    one = g.unsqueeze(m.x, [3])
    m.spread = g.any_of(g.expand(one, g.any_tensor()), g.tile(one, g.any_tensor()))
    m.made = g.reshaped(m.spread)
    return g.transpose(m.made, perm=m.perm)


@rule(patterns=[behind_rows], target="any")
def repeat_kv_before_transpose(g: Graph, m: Copies) -> Tensor:
    """Move heads in front of the rows before they are copied, so that an attention of groups is found.

    What: heads of [batch, rows, heads, columns] that are each repeated and moved then, as Llama's reference has them,
    and ChatGLM2.
    Numerics: none.
    """
    batch, heads = m.perm[:2]
    require(heads == 2, "the heads do not come behind the batch")
    first = [batch, 2, 1 - batch, 3]
    each = g.expand(g.unsqueeze(g.transpose(m.x, perm=first), [2]), np.array([1, 1, m.copies, 1, 1], np.int64))
    rows = g.size_of(m.x, 1 - batch)  # stated, because Reshape cannot infer them for an empty batch
    copies = g.reshape(each, g.concat(np.array([0, m.heads * m.copies]), rows, np.array([m.columns]), axis=0))
    perm = [first.index(axis) for axis in m.perm]
    return copies if perm == sorted(perm) else g.transpose(copies, perm=perm)
