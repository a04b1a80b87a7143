"""Masks of ONNX's Attention that have one row for all queries, which ONNX Runtime does not spread."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def of_one_row(g: Graph, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, **attributes: Any) -> Tensor:
    """Attention with a mask."""
    made: Tensor = g.attention(q, k, v, mask, **attributes)
    return made


@rule(patterns=[of_one_row], opset=23)
def broadcast_mask(g: Graph, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Give the mask of an Attention a row for each query, where it has one for all.

    What: a padding of [batch, 1, 1, keys], as torch's dynamo exporter hands it over from opset 23.  ONNX lets masks be
    spread; ONNX Runtime refuses to run one that has fewer rows than the queries.
    Numerics: none.
    """
    require(mask.shape is not None and q.shape is not None, "the shape of the mask or of the queries is unknown")
    require(len(mask.shape) > 1 and mask.shape[-2] == 1, "the mask has not one row for all queries")
    rows = q.rank - 2 if q.rank == 4 else 1
    require(q.shape[rows] != 1, "there is one query")
    spread = g.spread(mask, [*[1] * (mask.rank - 2), g.size_of(q, rows), 1])
    return of_one_row(g, q, k, v=v, mask=spread, **attributes)
