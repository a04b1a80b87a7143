"""Attention as one node of ONNX Runtime or ONNX, as patterns look for it."""

from typing import Any

from surgeon import Graph, Match, Tensor, require

NODES = ("rows", "packed", "node")  # what the patterns of nodes alone capture: the queries, or what they come from


def of_runtime(
    g: Graph,
    rows: Tensor,
    k: Tensor,
    v: Tensor,
    last: Tensor,
    less: Tensor,
    total: Tensor,
    packed: Tensor,
    weights: Tensor,
    added: Tensor,
    shifts: Tensor | None = None,
    index: Tensor | None = None,
    bias: Tensor | None = None,
    **attributes: Any,
) -> Any:
    """MultiHeadAttention; GroupQueryAttention over all rows of the keys; Attention with the projections in it."""
    lasts = g.any_of(g.shared(g.expand(less, g.any_tensor())), last)
    parts = (rows, k, v, None, None, lasts, total, None, None, None, bias)
    return g.any_of(
        g.ms_multi_head_attention(rows, k, v, shifts, index, bias, **attributes),
        g.ms_group_query_attention(*parts, outputs=3, **attributes)[0],
        g.ms_attention(packed, weights, added, index, None, bias, **attributes),
    )


def of_onnx(g: Graph, node: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, **attributes: Any) -> Any:
    """Attention without a past."""
    return g.attention(node, k, v, bias, **attributes)


def is_node(match: Match) -> bool:
    """Whether one of these was found, and not an attention in parts."""
    return bool(set(NODES) & set(match.bound))


def require_told(match: Match, given: Tensor) -> None:
    """What of the sizes a node's meaning hangs on."""
    k, v = match["k"], match["v"]
    ranks = {given.rank, k.rank, v.rank}
    require(ranks <= {3, 4}, "queries, keys or values have other axes than batch, head, row, column")
    require(not is_grouped(match) or counts_all(match), "not all rows of the keys count")
    hides = is_causal(match) and "node" not in match.bound
    require(not (hides and is_grouped(match)), "what it hides it does not compute, so that nothing there overflows")
    if hides:
        alike = given.shape[1] == k.shape[k.rank - 2]
        require(alike, "a causal attention of ONNX Runtime's wants as many keys as queries")


def is_causal(match: Match) -> bool:
    """Whether each query sees the keys up to its own place alone."""
    numbers: dict[str, Any] = match["attributes"]
    usual = int(is_grouped(match))
    return bool(numbers.get("unidirectional", numbers.get("is_causal", numbers.get("causal", usual))))


def is_grouped(match: Match) -> bool:
    """Whether the node is a GroupQueryAttention."""
    return "total" in match.bound


def counts_all(match: Match) -> bool:
    """Whether a GroupQueryAttention without a past looks at all rows of its keys, in each of the batch."""
    k, total = match["k"], match["total"]
    if k.rank != 3 or total.elements != [k.shape[1]]:
        return False
    elements = match["less"].elements if "less" in match.bound else match["last"].elements
    return elements is not None and all(element == k.shape[1] - 1 for element in elements)
