"""Loops that count, with the trip limit that follows from their condition."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, emit_body, rule, searches


@rule(search=searches.counted_loops, target="tensorrt")
def counted_loops(
    g: Graph, body: Any, start: Tensor, limit: Tensor, tensors: list[Tensor], used: list[bool]
) -> list[Tensor]:
    """Give a Loop that counts the trip limit that its condition comes to.

    What: a Loop without a trip limit that goes on while a counter, one more each time, is below a limit that stays, as
    TensorFlow's while loops are; TensorRT must know how often a loop that collects its results may run.
    Numerics: none; the condition stays, and ends the loop at the same time.
    """
    first, last = (g.reshape(g.cast(one, to="int64"), np.array([1])) for one in (start, limit))
    trips = g.max(g.sub(last, first), np.array([1], np.int64))
    return emit_body(g, body, [g.squeeze(trips, np.array([0])), *tensors], {}, outputs=used)
