"""Loops that count, with the trip limit that follows from their condition."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, emit_body, rule, searches


@rule(search=searches.counted_loops, target="tensorrt")
def counted_loops(
    g: Graph,
    body: Any,
    limit: Tensor,
    more: int,
    axis: int | None,
    tensors: list[Tensor],
    used: list[bool],
    start: Tensor | None = None,
) -> list[Tensor]:
    """Give a Loop that counts the trip limit that its condition, or what it takes elements of, comes to.

    What: a Loop without a trip limit that goes on while a counter, one more each time, is below a limit that stays, as
    TensorFlow's while loops are; or that takes in each step the next element of a tensor, which has no more than so
    many.  TensorRT must know how often a loop that collects its results may run.
    Numerics: none; the condition stays, and ends the loop at the same time.
    """
    one = np.array([1], np.int64)
    last = g.reshape(g.cast(limit, to="int64"), one) if axis is None else g.size_of(limit, axis)
    last = g.add(last, one) if more and axis is None else last
    trips = last if start is None else g.sub(last, g.reshape(g.cast(start, to="int64"), one))
    return emit_body(g, body, [g.squeeze(g.max(trips, one), np.array([0])), *tensors], {}, outputs=used)
