"""The sizes of keys with a past, computed from the past and from the new keys."""

from typing import Any

from surgeon import Constant, Graph, Tensor, dims, require, rule
from ..layout.shape_reads import one_place, one_size
from ._kv_heads import CachedKV, concat_past, repeated_heads

ROWS = 2  # the axis along which keys are appended to a past


class Asked(CachedKV):
    """Keys with a past. index, or start and stop: the size that is read, if it is not the number of rows."""

    index: Constant | Any = dims("", "1", default=None)
    start: list[int] | Any = None
    stop: list[int] | Any = None


def size_of_keys(g: Graph, m: Asked) -> Tensor:
    """A size of the keys, or their number as the scores have it, from the transposed keys or repeated heads."""
    keys = concat_past(g, m)
    heads = g.any_of(g.shared(repeated_heads(g, m)), g.shared(keys))
    own = g.gather(g.shared(g.shape(g.shared(keys))), m.index, axis=0)
    return g.any_of(own, one_size(g, heads, m.start, m.stop), g.size_of(g.transpose(heads, perm=[0, 1, 3, 2]), 3))


@rule(patterns=[size_of_keys], target="any")
def kv_cache_length(g: Graph, m: Asked) -> Tensor:
    """Add the number of rows of a past and of the new keys, so that the size does not depend on their concatenation.

    What: the size of concatenated keys is computed from their parts.  Then an attention whose mask depends on that size
    can do the concatenation itself.
    Numerics: none.
    """
    if m.index is None:
        axis = ROWS if m.start is None else one_place(4, m.start, m.stop)
        require(m.spread is None or axis != 1, "it reads the number of repeated heads")
        before, after = (g.size_of(part, axis) for part in (m.past, m.new))
        return g.add(before, after) if axis == ROWS else before
    index = m.index.values
    own, new = (g.gather(g.shape(part), index, axis=0) for part in (m.past, m.new))
    return g.add(own, new) if int(index.item()) % 4 == ROWS else own
