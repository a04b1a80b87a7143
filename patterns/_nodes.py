"""Attention that is one node of ONNX Runtime or ONNX, as patterns look for it, and what goes into it."""

from typing import Any

from surgeon import Captures, Graph, Tensor
from ._layouts import ABSENT


class Whole(Captures):
    """An attention, whichever op it is.

    q: the queries, or what they come from.  bias: what is added to the scores.  index: what counts as no padding.
    total: how many keys there are, which GroupQueryAttention alone is told.
    """

    q: Tensor
    bias: Tensor = ABSENT
    index: Tensor = ABSENT
    total: Tensor = ABSENT
    attributes: dict[str, Any]

    @property
    def is_causal(self) -> bool:
        """Whether each query sees the keys up to its own place alone."""
        numbers, usual = self.attributes, self.total is not None
        return bool(numbers.get("unidirectional", numbers.get("is_causal", numbers.get("causal", usual))))


class Projected(Whole):
    """com.microsoft::Attention, which computes queries, keys and values itself."""

    weights: Tensor
    added: Tensor


class Node(Whole):
    """Any other; `last` and `less`: the last key that counts for each sequence, or the one of which that is copies."""

    k: Tensor
    v: Tensor
    shifts: Tensor = ABSENT
    last: Tensor = ABSENT
    less: Tensor = ABSENT
    past_key: Tensor = ABSENT
    past_value: Tensor = ABSENT

    @property
    def past(self) -> dict[str, Any]:
        """The keys and values before these, if there are such, as arguments of a helper; it gives the next step's."""
        past = {"past_key": self.past_key, "past_value": self.past_value}
        return {} if self.past_key is None else {**past, "outputs": 3}


class Standard(Node):
    """ONNX's own Attention."""


def multi_head(g: Graph, m: Node, bias: Tensor | None = None, **more: Any) -> Any:
    """What MultiHeadAttention makes; behind a past keys and values for the next step too."""
    made = g.ms_multi_head_attention(m.q, m.k, m.v, attention_bias=bias, **m.past, **{**m.attributes, **more})
    return made if m.past else [made]


def group_query(g: Graph, m: Node, bias: Tensor | None = None, **more: Any) -> Any:
    """What GroupQueryAttention makes, with keys and values for the next step."""
    told: dict[str, Any] = {"seqlens_k": m.last, "total_sequence_length": m.total, "attention_bias": bias, "outputs": 3}
    return g.ms_group_query_attention(m.q, m.k, m.v, **{**told, **m.past, **m.attributes, **more})


def without_mask(g: Graph, m: Node, is_causal: bool = False) -> Any:
    """The op that was found without its mask, perhaps told to hide the future; as many outputs as it had."""
    if isinstance(m, Standard):
        return g.attention(m.q, m.k, m.v, **{**m.attributes, "is_causal": int(is_causal)})
    if m.total is not None:  # GroupQueryAttention is causal unless told otherwise
        return group_query(g, m)[: m.output_count]
    return multi_head(g, m, **({"unidirectional": 1} if is_causal else {}))[: m.output_count]


def of_multi_head(g: Graph, m: Node) -> Any:
    """MultiHeadAttention."""
    return g.ms_multi_head_attention(m.q, m.k, m.v, m.shifts, m.index, m.bias, **m.attributes)


def of_groups(g: Graph, m: Node) -> Any:
    """GroupQueryAttention over all rows of the keys."""
    last = g.any_of(g.shared(g.expand(m.less, g.any_tensor())), m.last)
    told: dict[str, Any] = {"seqlens_k": last, "total_sequence_length": m.total, "attention_bias": m.bias, "outputs": 3}
    return g.ms_group_query_attention(m.q, m.k, m.v, **told, **m.attributes)[0]


def of_projections(g: Graph, m: Projected) -> Any:
    """Attention with the projections in it."""
    return g.ms_attention(m.q, m.weights, m.added, m.index, None, m.bias, **m.attributes)


def of_onnx(g: Graph, m: Standard) -> Any:
    """Attention without a past."""
    return g.attention(m.q, m.k, m.v, m.bias, **m.attributes)
