"""Masks of Attention (ONNX) with one row for all queries, which ONNX Runtime does not broadcast."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def of_one_row(g: Graph, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, **attributes: Any) -> Tensor:
    """Attention with a mask."""
    made: Tensor = g.attention(q, k, v, mask, **attributes)
    return made


@rule(patterns=[of_one_row], opset=23)
def broadcast_mask(g: Graph, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Expand the mask of an Attention to one row for each query, if it has one row for all queries.

    What: a padding mask of [batch, 1, 1, keys].  The dynamo exporter of torch writes it from opset 23 on.  ONNX allows
    masks to broadcast, but ONNX Runtime refuses to run a mask with fewer rows than queries.
    Numerics: none.
    """
    require(mask.shape is not None and q.shape is not None, "the shape of the mask or of the queries is unknown")
    require(len(mask.shape) > 1 and mask.shape[-2] == 1, "the mask must have one row for all queries")
    rows = q.rank - 2 if q.rank == 4 else 1
    require(q.shape[rows] != 1, "there is only one query")
    spread = g.spread(mask, [*[1] * (mask.rank - 2), g.size_of(q, rows), 1])
    return of_one_row(g, q, k, v=v, mask=spread, **attributes)
