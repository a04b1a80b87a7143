"""Whole attention layers: one input, its projections to queries, keys and values, and the attention between them."""

from typing import Any

from surgeon import Graph, rule
from ._cuts import by_three, cut_along_an_axis, cut_in_three
from ._packed import whole
from ._projections import OneProjection, ThreeProjections, parts_of, require_heads


@rule(patterns=[cut_in_three, cut_along_an_axis])
def attention_of_one_projection(g: Graph, m: OneProjection) -> Any:
    """Fuse an attention and the projection that its queries, keys and values are cut out of into Attention.

    What: attention of the thirds of x @ w + b, or of parts of other sizes, as com.microsoft::Attention.  A number that
    the queries are multiplied with becomes part of the scale.
    Numerics: rounding only.

    On a CPU (ONNX Runtime 1.31, one thread) one sequence takes 0 to 4 % less time than with MultiHeadAttention: 4 % in
    torch's encoder layers at 128 rows and in GPT-2 at 512.  The kernel makes a product for each sequence and head, so
    eight sequences of 64 rows take up to 3 % more in GPT-2, and as long in torch's layers.
    """
    parts = parts_of(m)
    sizes = [part.columns for part in parts] if m.five is None else [m.whole.columns // 3] * 3
    require_heads(m, parts)
    return whole(g, m, [m.whole], sizes)


@rule(patterns=[by_three], ep="cuda")
def attention_of_three_projections(g: Graph, m: ThreeProjections) -> Any:
    """Fuse an attention and the three projections of its one input into Attention, which makes them by one product.

    What: attention of x @ wq + bq, x @ wk + bk and x @ wv + bv, as com.microsoft::Attention.  A number that the queries
    are multiplied with becomes part of the scale.  The weights stay as they are, in their files: a Concat puts them
    beside each other, which ONNX Runtime does once, on loading.
    Numerics: rounding only.

    Not for a CPU, whose kernel makes a product for each sequence and head: BERT-base takes as long as with
    MultiHeadAttention behind three products (ONNX Runtime 1.31, one thread, 32 to 512 rows: 1 % less to 3 % more).
    """
    parts = parts_of(m)
    require_heads(m, parts)
    return whole(g, m, parts, [part.columns for part in parts])
