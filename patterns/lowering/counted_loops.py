"""Loops with a counter, and the trip limit that follows from their condition."""

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
    """Give a Loop with a counter the trip limit that follows from its condition or from a tensor that it reads.

    What: a Loop without a trip limit.  It continues while a counter, which increases by one, is below a constant limit,
    as in while loops of TensorFlow.  Or it reads the next element of a tensor in each step, so that the number of
    elements is the limit.  TensorRT needs the maximum number of trips of a loop that collects its results.
    Numerics: none.  The condition stays, and ends the loop at the same time.
    """
    one = np.array([1], np.int64)
    last = g.reshape(g.cast(limit, to="int64"), one) if axis is None else g.size_of(limit, axis)
    last = g.add(last, one) if more and axis is None else last
    trips = last if start is None else g.sub(last, g.reshape(g.cast(start, to="int64"), one))
    return emit_body(g, body, [g.squeeze(g.max(trips, one), np.array([0])), *tensors], {}, outputs=used)
