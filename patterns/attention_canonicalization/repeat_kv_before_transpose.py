"""Heads of keys and values that are copied while they follow the rows."""

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule


class Copies(Captures):
    """Heads x after batch and rows, with an axis for copies, the merged copies, and the Transpose of the result."""

    x: Tensor = dims("batch rows heads columns")
    spread: Tensor = dims("batch rows heads copies columns")
    made: Tensor = dims("batch rows heads*copies columns")
    perm: list[int]
    heads: int
    copies: int
    columns: int


def behind_rows(g: Graph, m: Copies) -> Tensor:
    """Each head repeated, and then moved before the rows."""
    one = g.unsqueeze(m.x, [3])
    m.spread = g.any_of(g.expand(one, g.any_tensor()), g.tile(one, g.any_tensor()))
    m.made = g.reshaped(m.spread)
    return g.transpose(m.made, perm=m.perm)


@rule(patterns=[behind_rows], target="any")
def repeat_kv_before_transpose(g: Graph, m: Copies) -> Tensor:
    """Move heads before the rows before they are copied, so that the rules for grouped attention match.

    What: heads of [batch, rows, heads, columns] that are repeated and then moved, as in the reference code of Llama and
    in ChatGLM2.
    Numerics: none.
    """
    batch, heads = m.perm[:2]
    require(heads == 2, "the heads must directly follow the batch in the result")
    first = [batch, 2, 1 - batch, 3]
    each = g.expand(g.unsqueeze(g.transpose(m.x, perm=first), [2]), np.array([1, 1, m.copies, 1, 1], np.int64))
    rows = g.size_of(m.x, 1 - batch)  # stated, because Reshape cannot infer them for an empty batch
    copies = g.reshape(each, g.concat(np.array([0, m.heads * m.copies]), rows, np.array([m.columns]), axis=0))
    perm = [first.index(axis) for axis in m.perm]
    return copies if perm == sorted(perm) else g.transpose(copies, perm=perm)
