"""Scores of the disentangled attention of DeBERTa (He et al., arXiv:2006.03654; buckets: DeBERTa-v2 and v3)."""

from math import isclose
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule

VERSION: dict[str, Any] = {"plugin_version": "2", "plugin_namespace": ""}  # version 2 is in TensorRT 10.11 and newer


class DisentangledScores(Captures):
    """Queries and keys, their products with the positions, and the position that each pair looks up."""

    q: Tensor
    kt: Tensor
    to_places: Tensor = dims("_ _ positions")
    to_queries: Tensor = dims("_ _ positions")
    places: Tensor
    others: Tensor
    content: float
    first: float
    second: float
    positions: int


def looked_up(g: Graph, table: Tensor, places: Tensor) -> Tensor:
    """Look up a number of the table for each pair of a query and a key."""
    return g.gather_elements(table, g.any_of(g.expand(places, g.any_tensor()), places), axis=-1)


def disentangled(g: Graph, m: DisentangledScores) -> Tensor:
    """content · q·kᵀ + first · c2p at places + second · (p2c at places)ᵀ."""
    content = g.any_of(g.matmul(m.q, g.mul(m.kt, m.content)), g.mul(g.matmul(m.q, m.kt), m.content))
    turned = g.transpose(looked_up(g, m.to_queries, m.others), perm=[0, 2, 1])
    return g.add(content, g.mul(looked_up(g, m.to_places, m.places), m.first), g.mul(turned, m.second))


def buckets(length: int, span: int) -> np.ndarray:
    """Return which of 2·span positions the plugin looks up for each pair: close ones exactly, far ones by logarithm."""
    apart = np.arange(length)[:, None] - np.arange(length)
    half = np.float32(span // 2)
    slope = (half - 1) / (np.log(np.float32(2 * span - 1)) - np.log(half)) * np.float32(1 - 1e-7)
    steps = np.ceil((np.log(np.maximum(abs(apart), 1).astype(np.float32)) - np.log(half)) * slope) + half
    found = np.where(abs(apart) <= half, apart, np.sign(apart) * steps).astype(np.int64)
    return np.clip(found + span, 0, 2 * span - 1)


@rule(patterns=[disentangled], target="tensorrt", dtypes="floats")
def disentangled_attention(g: Graph, m: DisentangledScores) -> Any:
    """Write the scores of DeBERTa's attention as the TensorRT plugin DisentangledAttention_TRT.

    What: the sum of the scores content to content, content to position and position to content, each times one number.
    The length is fixed.  The positions are those of DeBERTa-v2 and v3 with buckets: half of the span is exact, and the
    rest is logarithmic.
    Numerics: rounding only.
    TensorRT: version 2 of the plugin needs TensorRT 10.11, and TensorRT-RTX does not have the plugin.  Name this rule
    before the group `tensorrt`, whose cleanup moves the number away from the keys.
    """
    require(m.positions % 2 == 0 and m.positions >= 8, "the number of positions must be even and at least 8")
    near = isclose(m.content, m.first, rel_tol=1e-3) and isclose(m.first, m.second, rel_tol=1e-3)
    require(near, "the three parts must be multiplied by the same number")
    require(m.places.is_constant and m.others.is_constant, "the positions must be constant: fix the length (--dim)")
    wanted = buckets(m.places.values.shape[-1], m.positions // 2)
    pairs = (m.places, wanted), (m.others, wanted.T)
    is_so = all(np.array_equal(np.broadcast_to(places, one.shape), one.values) for one, places in pairs)
    require(is_so, "the positions must be those that the plugin looks up: buckets of half the span, up to its double")
    settings: dict[str, Any] = {"span": m.positions // 2, "factor": m.content}
    return g.op(
        "trt.plugins::DisentangledAttention_TRT", g.matmul(m.q, m.kt), m.to_places, m.to_queries, **settings, **VERSION
    )
