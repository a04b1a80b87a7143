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

    @property
    def past(self) -> tuple[Tensor, Tensor] | None:
        """The keys and values before these, if there are such."""
        return None


class NodeBehindPast(Node):
    """The same behind a past."""

    past_key: Tensor
    past_value: Tensor

    @property
    def past(self) -> tuple[Tensor, Tensor]:
        """The keys and values before these."""
        return self.past_key, self.past_value


class Standard(Node):
    """ONNX's own Attention."""


def multi_head(g: Graph, m: Node, bias: Tensor | None = None, **more: Any) -> Any:
    """MultiHeadAttention; behind a past it gives keys and values for the next step too."""
    if m.past is None:
        return g.ms_multi_head_attention(m.q, m.k, m.v, attention_bias=bias, **{**m.attributes, **more})
    parts = (m.q, m.k, m.v, None, None, bias, *m.past)
    return g.ms_multi_head_attention(*parts, outputs=3, **{**m.attributes, **more})


def group_query(g: Graph, m: Node, bias: Tensor | None = None, last: Tensor | None = None, **more: Any) -> Any:
    """GroupQueryAttention; behind a past it gives keys and values for the next step too."""
    past_key, past_value = m.past or (None, None)
    lasts = m.last if last is None else last
    parts = (m.q, m.k, m.v, past_key, past_value, lasts, m.total, None, None, None, bias)
    made = g.ms_group_query_attention(*parts, outputs=3, **{**m.attributes, **more})
    return made if m.past else made[0]


def of_multi_head(g: Graph, m: Node) -> Any:
    """MultiHeadAttention."""
    return g.ms_multi_head_attention(m.q, m.k, m.v, m.shifts, m.index, m.bias, **m.attributes)


def of_groups(g: Graph, m: Node) -> Any:
    """GroupQueryAttention over all rows of the keys."""
    return group_query(g, m, m.bias, g.any_of(g.shared(g.expand(m.less, g.any_tensor())), m.last))


def of_projections(g: Graph, m: Projected) -> Any:
    """Attention with the projections in it."""
    return g.ms_attention(m.q, m.weights, m.added, m.index, None, m.bias, **m.attributes)


def of_onnx(g: Graph, m: Standard) -> Any:
    """Attention without a past."""
    return g.attention(m.q, m.k, m.v, m.bias, **m.attributes)
