"""The sizes of keys that were put behind a past, asked of the past and of what is behind it."""

from surgeon import Constant, Graph, Match, Tensor, require, rule
from ._cache import behind
from ._layouts import size_of
from .grouped_query_attention import are_copies, repeated

ROWS = 2  # the axis along which keys are put behind a past


def turned(g: Graph, x: Tensor) -> Tensor:
    """The size of the last axis, to which the rows were turned."""
    return size_of(g, g.transpose(x, perm=[0, 1, 3, 2]), 3)


def of_turned_keys(g: Graph, past: Tensor, x: Tensor) -> Tensor:
    """The number of keys as scores have it."""
    return turned(g, g.shared(behind(g, past, x, "keys")))


def of_turned_copies(g: Graph, past: Tensor, x: Tensor) -> Tensor:
    """The same of keys that are copied for several heads."""
    return turned(g, g.shared(repeated(g, behind(g, past, x, "keys"), "k")))


def of_keys(g: Graph, past: Tensor, x: Tensor, index: Constant) -> Tensor:
    """A size of the keys."""
    return g.gather(g.shared(g.shape(g.shared(behind(g, past, x, "keys")))), index, axis=0)


def is_a_cache(past: Tensor, x: Tensor) -> None:
    """Heads of [batch, heads, rows, columns], heads and columns fixed, behind others of the same sizes."""
    require(past.shape is not None and x.shape is not None, "a shape is unknown")
    require(past.rank == x.rank == 4, "the keys have other axes than batch, head, row, column")
    require(
        isinstance(x.shape[1], int) and isinstance(x.shape[3], int), "the number of heads, or their size, is unknown"
    )
    require(past.shape[1::2] == x.shape[1::2], "the past has other heads than what comes behind it")


@rule(patterns=[of_keys, of_turned_keys, of_turned_copies], conditions=[is_a_cache], target="any")
def cache_length(g: Graph, match: Match, past: Tensor, x: Tensor) -> Tensor:
    """Add up the number of rows of a past and of what is behind it, so that nothing waits for the two to be joined.

    What: the size of a concatenation of keys is asked of its parts.  So an attention whose mask depends on that size
    can do the concatenation itself.
    Numerics: none.
    """
    if "index" in match.bound:
        index = match["index"].values
        require(index.size == 1, "several sizes are asked for")
        own, new = (g.gather(g.shape(part), index, axis=0) for part in (past, x))
        return g.add(own, new) if int(index.item()) % 4 == ROWS else own
    if "k_copies" in match.bound:
        copies = match["k_copies"], match["k_heads"]
        are_copies(*(match["keys"],) * 2, *(copy for copy in copies for _ in range(2)))
    own, new = (size_of(g, part, ROWS) for part in (past, x))
    return g.add(own, new)
