"""Whole attention layers: one input, its projections to queries, keys and values, and the attention between them."""

from typing import Any

from surgeon import Constant, Graph, Match, Tensor, rule
from . import _cuts
from ._cuts import cut_heads, cut_rows, require_cuts, require_five, require_time_first
from ._projections import PARTS, as_heads, attend, linear, require_heads, require_linear, whole


def cut_in_three(
    g: Graph,
    x: Tensor,
    w_all: Constant,
    b_all: Constant,
    factor: float,
    mask: Tensor,
    bias: Tensor | None = None,
    **attributes: Any,
) -> Any:
    """MultiHeadAttention of parts of one projection; keys and values may come as heads."""
    q, k, v = cut_rows(g, linear(g, x, w_all, b_all, "all"))
    return attend(g, (q, as_heads(g, k, "k"), as_heads(g, v, "v")), factor, mask, bias, **attributes)


def cut_along_an_axis(
    g: Graph,
    x: Tensor,
    w_all: Constant,
    b_all: Constant,
    factor: float,
    mask: Tensor,
    bias: Tensor | None = None,
    **attributes: Any,
) -> Any:
    """The same, of one projection whose columns are split in three and into heads."""
    return attend(g, cut_heads(g, linear(g, x, w_all, b_all, "all")), factor, mask, bias, **attributes)


def cut_time_first(
    g: Graph,
    x: Tensor,
    w_all: Constant,
    b_all: Constant,
    factor: float,
    mask: Tensor,
    bias: Tensor | None = None,
    **attributes: Any,
) -> Any:
    """The same, of one projection that has the rows before the batch, as torch.nn.MultiheadAttention makes it."""
    return attend(g, _cuts.cut_time_first(g, linear(g, x, w_all, b_all, "all")), factor, mask, bias, **attributes)


def by_three(
    g: Graph,
    x: Tensor,
    w_q: Constant,
    w_k: Constant,
    w_v: Constant,
    b_q: Constant,
    b_k: Constant,
    b_v: Constant,
    factor: float,
    mask: Tensor,
    bias: Tensor | None = None,
    **attributes: Any,
) -> Any:
    """The same, of three projections of one tensor."""
    k, v = as_heads(g, linear(g, x, w_k, b_k, "k"), "k"), as_heads(g, linear(g, x, w_v, b_v, "v"), "v")
    return attend(g, (linear(g, x, w_q, b_q, "q"), k, v), factor, mask, bias, **attributes)


@rule(patterns=[cut_in_three, cut_along_an_axis, cut_time_first])
def attention_of_one_projection(g: Graph, match: Match, x: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Fuse an attention and the projection that its queries, keys and values are cut out of into Attention.

    What: attention of the thirds of x @ w + b, or of parts of other sizes, as com.microsoft::Attention.  A number that
    the queries are multiplied with becomes part of the scale.
    Numerics: rounding only.

    On a CPU (ONNX Runtime 1.31, one thread) one sequence takes 0 to 4 % less time than with MultiHeadAttention: 4 % in
    torch's encoder layers at 128 rows and in GPT-2 at 512.  The kernel makes a product for each sequence and head, so
    eight sequences of 64 rows take up to 3 % more in GPT-2, and as long in torch's layers.
    """
    heads, width = attributes["num_heads"], require_linear(match, x, "all")
    if "five" in match.bound:
        require_five(match, heads, width // (3 * heads))
        return whole(g, match, x, [width // 3] * 3)
    if "lifted" in match.bound:
        require_time_first(match, heads, width // (3 * heads))
        return whole(g, match, g.transpose(x, perm=[1, 0, 2]), [width // 3] * 3)
    require_heads(match, heads)
    return whole(g, match, x, require_cuts(match, width))


@rule(patterns=[by_three], ep="cuda")
def attention_of_three_projections(g: Graph, match: Match, x: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Fuse an attention and the three projections of its one input into Attention, which makes them by one product.

    What: attention of x @ wq + bq, x @ wk + bk and x @ wv + bv, as com.microsoft::Attention.  A number that the queries
    are multiplied with becomes part of the scale.  The weights stay as they are, in their files: a Concat puts them
    beside each other, which ONNX Runtime does once, on loading.
    Numerics: rounding only.

    Not for a CPU, whose kernel makes a product for each sequence and head: BERT-base takes as long as with
    MultiHeadAttention behind three products (ONNX Runtime 1.31, one thread, 32 to 512 rows: 1 % less to 3 % more).
    """
    sizes = [require_linear(match, x, name) for name in PARTS]
    require_heads(match, attributes["num_heads"])
    return whole(g, match, x, sizes)
