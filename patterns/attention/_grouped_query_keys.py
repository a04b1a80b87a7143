"""The keys and values of each sequence of a GroupQueryAttention, including those of a past."""

from typing import Any, NamedTuple

import numpy as np

from surgeon import Graph, Tensor
from ._fused_grouped_query import Grouped


class Keys(NamedTuple):
    """The origin of the keys of each sequence."""

    before: Any
    """Number of keys before the new ones, int64 [batch, 1]."""
    is_first: Any
    """Whether this is the first call, bool [1].  None if there always is a past."""
    is_whole: bool
    """Whether every sequence uses the whole past."""


def counted(g: Graph, m: Grouped, rows: Any) -> Keys:
    """Count the keys of each sequence before the new ones."""
    zero = np.zeros((1, 1), np.int64)
    if m.past_key is None:
        return Keys(zero, None, True)
    one, new = m.last if m.less is None else m.less, m.q.shape and m.q.shape[1]
    room = m.past_key.shape and m.past_key.shape[2]
    is_first = g.equal(g.reshape(g.cast(m.total, to="int64"), [1]), rows)
    lengths, total = one.elements, m.total.elements
    if lengths is not None and total is not None and new is not None and room is not None:
        every = room + new
        if total == [every] and all(element == every - 1 for element in lengths):
            return Keys(g.unsqueeze(g.size_of(m.past_key, 2), [0]), is_first, True)
    last = g.reshape(g.cast(one, to="int64"), [-1, 1])
    before = g.sub(g.add(last, np.ones(1, np.int64)), rows)
    return Keys(g.where(is_first, np.zeros(1, np.int64), before), is_first, False)


def places_of(g: Graph, m: Grouped, at: Tensor, keys: Keys) -> Tensor:
    """Return the given positions.  In the first call the kernel counts up from the first of them, for all sequences."""
    own = g.add(at, g.slice(g.slice(m.places, [0], [1], [0]), [0], [1], [1]))
    return own if keys.is_first is None else g.where(keys.is_first, own, m.places)


def put_behind(g: Graph, m: Grouped, new: Tensor, past: Tensor | None, keys: Keys) -> Tensor:
    """Append new keys or values to the used part of a past in each sequence, with zeros up to the longest sequence."""
    if past is None:
        return new
    both = g.concat(past, new, axis=2)
    if keys.is_whole:
        return both
    room, count = g.size_of(past, 2), g.size_of(new, 2)
    length = g.max(g.reshape(g.cast(m.total, to="int64"), [1]), room)
    place = g.unsqueeze(g.range(np.int64(0), g.squeeze(length, [0]), np.int64(1)), [0])  # [1, length]
    moved = g.add(g.sub(place, keys.before), room)
    source = g.where(g.less(place, keys.before), place, moved)
    most = g.sub(g.add(room, count), np.ones(1, np.int64))
    index = g.unsqueeze(g.spread(g.max(g.min(source, most), np.zeros(1, np.int64)), [g.size_of(new, 0), 1]), [2])
    found = g.heads_first(g.gather_nd(g.heads_first(both), index, batch_dims=1))
    is_there = g.unsqueeze(g.less(place, g.add(keys.before, count)), [1, 3])
    return g.where(is_there, found, np.zeros((), m.q.dtype))
