"""Scales, biases and cut tensors in front of a fused attention, which has attributes or inputs for them."""

from math import isfinite
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._emit_ort import DIFFERS
from ._fused_attention import FusedAttention
from ._fused_grouped_query import Grouped, grouped_inputs


class ScaledQueries(FusedAttention):
    """MultiHeadAttention, and the number that multiplies its queries."""

    q: Tensor = dims("_ _ columns")
    k: Tensor
    factor: float
    columns: int


def attention_of(g: Graph, m: ScaledQueries, q: Tensor, **attributes: Any) -> list[Tensor]:
    """MultiHeadAttention without a bias of its inputs."""
    past = (m.past_key, m.past_value)
    return list(g.ms_multi_head_attention(q, m.k, m.v, None, m.mask_index, m.bias, *past, **attributes, outputs=3))


def scaled(g: Graph, m: ScaledQueries) -> list[Tensor]:
    """Attention of queries that a number multiplies, and the keys and values for the next step."""
    return attention_of(g, m, g.mul(m.q, m.factor), **m.attributes)


def scaled_alone(g: Graph, m: ScaledQueries) -> Tensor:
    """The same if only the first output is read."""
    return scaled(g, m)[0]


@rule(patterns=[scaled_alone, scaled], target="ort", form_patterns=[])
def scaled_queries(g: Graph, m: ScaledQueries) -> list[Tensor]:
    """Multiply the scale of an attention by the number that multiplies its queries.

    What: MultiHeadAttention of q · number, without a bias of the queries, becomes one of q with another `scale`.
    Numerics: rounding only.
    """
    usual = (m.columns // m.attributes["num_heads"]) ** -0.5
    scale = m.factor * (m.attributes.get("scale", 0.0) or usual)
    require(isfinite(scale) and np.float32(scale) != 0, "a scale must be finite and not 0, which means the default")
    return attention_of(g, m, m.q, **{**m.attributes, "scale": scale})[: m.output_count]


class CutIntoThree(Grouped):
    """GroupQueryAttention of three parts of one tensor."""

    whole: Tensor = dims("batch rows _")
    q: Tensor | Any = dims("batch rows columns")
    k: Tensor | Any = dims("batch rows shared")
    v: Tensor | Any = dims("batch rows shared")
    last: Tensor
    columns: int
    shared: int


def of_parts(g: Graph, m: CutIntoThree) -> Any:
    """GroupQueryAttention of three parts of one tensor, and the keys and values for the next step."""
    m.q, m.k, m.v = g.parts(m.whole, 3, -1)
    return grouped_inputs(g, m, m.q, k=m.k, v=m.v, last=m.last)


def of_parts_alone(g: Graph, m: CutIntoThree) -> Tensor:
    """The same if only the first output is read."""
    made: Tensor = of_parts(g, m)[0]
    return made


@rule(patterns=[of_parts_alone, of_parts], differs=DIFFERS, form_patterns=[])
def grouped_packed_qkv(g: Graph, m: CutIntoThree) -> Any:
    """Let GroupQueryAttention read queries, keys and values in one tensor instead of cutting it.

    What: GroupQueryAttention of three parts of one tensor reads the whole tensor as its first input.
    Numerics: none for finite numbers.
    """
    heads, groups = m.attributes["num_heads"], m.attributes["kv_num_heads"]
    fits = m.columns % heads == 0 and m.shared * heads == m.columns * groups
    require(fits, "the heads of queries, keys and values must have the same size")
    return grouped_inputs(g, m, m.whole, k=None, v=None, last=m.last)[: m.output_count]


class BiasedHeads(Captures):
    """Queries, keys and values of an attention, each with an optional bias, and its masks."""

    q: Tensor = dims("batch _ columns")
    k: Tensor = dims("batch keys columns")
    v: Tensor = dims("batch keys width")
    q_bias: Tensor | Any = dims("columns", default=None)
    k_bias: Tensor | Any = dims("columns", default=None)
    v_bias: Tensor | Any = dims("width", default=None)
    mask_index: Tensor | Any = None
    bias: Tensor | Any = None
    attributes: dict[str, Any]
    columns: int
    width: int


def biased(g: Graph, m: BiasedHeads) -> Any:
    """MultiHeadAttention of sums with biases."""
    pairs = (m.q, m.q_bias), (m.k, m.k_bias), (m.v, m.v_bias)
    q, k, v = (g.optional(g.add(x, bias)) for x, bias in pairs)
    return g.ms_multi_head_attention(q, k, v, None, m.mask_index, m.bias, **m.attributes)


@rule(patterns=[biased], ep="cuda", last=True)
def qkv_biases(g: Graph, m: BiasedHeads) -> Any:
    """Fuse the biases of queries, keys and values into MultiHeadAttention, which has one input for all of them.

    What: MultiHeadAttention of q + bq, k + bk and v + bv.  A missing bias becomes zeros.  Constant biases become one
    constant, and a Concat joins computed ones.  `separate_qkv_attention` comes first, for projections of one tensor.
    Numerics: rounding only.
    Speed: on a CPU, the two forms take the same time (ONNX Runtime 1.32, 12 heads of 64 numbers, 32 to 512 rows).
    """
    given = [x for x in (m.q_bias, m.k_bias, m.v_bias) if x is not None]
    require(bool(given), "neither queries nor keys nor values are a sum with a bias")
    is_fixed = all(x.is_constant for x in given)
    require(is_fixed or len(given) > 1, "a Concat with zeros would replace the only Add, because its bias is computed")
    widths = (m.q_bias, m.columns), (m.k_bias, m.columns), (m.v_bias, m.width)
    parts: list[Any] = [np.zeros(width, m.q.dtype) if x is None else x.values if is_fixed else x for x, width in widths]
    whole: Any = np.concatenate(parts) if is_fixed else g.concat(*parts, axis=0)
    return g.ms_multi_head_attention(m.q, m.k, m.v, whole, m.mask_index, m.bias, **m.attributes)
