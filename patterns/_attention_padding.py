"""Padding as ONNX Runtime's attention takes it, and as what is added to the scores."""

from typing import Any

import numpy as np

from surgeon import Graph, Match, Tensor, require
from ._layouts import size_of

FILTER = -10000.0  # what is added to the scores of padding where the node does not say (ORT contrib ops, Attention-1)


def padding_of(g: Graph, match: Match, dtype: Any) -> Tensor | None:
    """Zero for what counts and a low number for padding, of [batch, 1, rows, keys]; None where the node has none.

    It may be given as how many keys count in each of the batch, from the first on, or as which of them do.
    """
    index = match["index"] if "index" in match.bound else None
    if index is None:
        return None
    require(index.rank in (1, 2), "the shape of the padding mask is unknown")
    queries, keys = (match["packed"],) * 2 if "packed" in match.bound else (match["rows"], match["k"])
    rows, columns = (size_of(g, x, x.rank - 2) for x in (queries, keys))
    require(queries.shape is not None, "the shape of the queries is unknown")
    if index.rank == 1:
        require(index.shape == queries.shape[:1], "the padding mask tells more than how many keys count")
        last = g.squeeze(g.cast(columns, to="int32"), [0])
        counts = g.less(g.range(np.int32(0), last, np.int32(1)), g.unsqueeze(index, [1]))
    else:
        require(keys.shape is not None, "the shape of the keys is unknown")
        whole = (queries.shape[0], keys.shape[keys.rank - 2])
        require(index.shape == whole, "the padding mask has other axes than batch and keys")
        counts = g.cast(index, to="bool")
    low = np.array(match["attributes"].get("mask_filter_value", FILTER), dtype)
    bias = g.unsqueeze(g.where(counts, np.zeros((), dtype), low), [1, 2])
    one = np.ones(1, np.int64)
    made: Tensor = g.expand(bias, g.concat(one, one, rows, one, axis=0))
    return made
