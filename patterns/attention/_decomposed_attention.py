"""Pattern of a decomposed attention: its scores, masks and weights."""

from math import inf
from typing import Any

from surgeon import Graph, Tensor, dims
from .._common.where_masks import WhereMask, nan_guarded, where_masked


class AttentionScores(WhereMask):
    """scale · q·kᵀ, with the masks and conditions that are applied before the softmax.

    mask, second: added before and after a condition. kept, hidden: the condition for scores that count, or for scores
    that `low` replaces. left, right, scale: numbers multiplied with q, with k and with the product. factor: a number
    for each head. cap: the scores become cap · tanh(scores / cap). floor: the minimum to which masked scores are
    raised.

    sink: one more score of each head, which takes weight and has no value (gpt-oss, arXiv:2508.10925). wide: the dtype
    to which the values are cast. guarded: the weights if NaN becomes 0. zero: the number that replaces weights of
    hidden scores. read: the values that the weights multiply. changes_hidden_rows: a rule may change the weights of
    rows that a condition and a mask hide together.
    """

    q: Tensor
    mask: Tensor | Any = None
    second: Tensor | Any = None
    low: float | Any = None
    left: float = 1.0
    right: float = 1.0
    scale: float = 1.0
    factor: Tensor | Any = None
    cap: float | Any = None
    floor: float | Any = None
    sink: Tensor | Any = None
    wide: int | Any = None
    guarded: Tensor | Any = None
    zero: float | Any = None
    read: Tensor | Any = None
    changes_hidden_rows: bool = False

    @property
    def masks(self) -> list[Tensor]:
        """The tensors added to the scores, before and after the condition."""
        return [mask for mask in (self.mask, self.second) if mask is not None]

    @property
    def given(self) -> list[Tensor]:
        """The tensors of the model whose shapes together give the shape of the bias."""
        return self.masks + [mask for mask in (self.kept, self.hidden) if mask is not None]

    @property
    def hides_by(self) -> float | Any:
        """The number that replaces hidden scores.  It acts as −∞ if their weights become 0."""
        return self.low if self.zero is None else -inf

    @property
    def is_guarded(self) -> bool:
        """Whether a fully hidden row gets weights of 0, although a softmax of −∞ gives NaN."""
        return self.guarded is not None or self.zero is not None


class AttentionCore(AttentionScores):
    """softmax(scale · q·kᵀ + mask)·v, decomposed, for several heads, one head without an axis, or windows."""

    q: Tensor = dims("batch heads rows columns", "batch rows _", "batch windows parts rows _")
    kt: Tensor = dims("batch groups _ keys", "batch _ keys", "batch windows parts _ keys")
    v: Tensor = dims("batch others _ width", "batch _ _", "batch windows parts _ _")
    heads: int = 1
    groups: Any = 1
    others: Any = 1
    columns: int = 0
    width: int = 0


def scores(g: Graph, m: AttentionScores, kt: Tensor) -> Tensor:
    """q·kᵀ with numbers on q, on k and on the product, optionally capped: cap · tanh(scores / cap)."""
    product = g.maybe_wider(g.matmul(g.optional(g.mul(m.q, m.left)), g.optional(g.mul(kt, m.right))))
    scaled = g.any_of(g.mul(product, m.scale), product, g.mul(product, m.factor))
    return g.maybe_wider(g.any_of(g.mul(g.tanh(g.div(scaled, m.cap)), m.cap), scaled))


def masked_scores(g: Graph, m: AttentionScores, kt: Tensor) -> Tensor:
    """Scores plus one or two optional masks.  The least number of the dtype may replace lower sums."""
    cold = scores(g, m, kt)
    hidden = g.any_of(g.add(cold, m.mask, m.second), g.add(cold, m.mask))
    return g.any_of(hidden, g.max(hidden, m.floor), cold)


def conditional_scores(g: Graph, m: AttentionScores, kt: Tensor) -> Tensor:
    """Scores of which a low number replaces those that a condition hides.  Masks may be added before and after."""
    cold = g.optional(g.add(scores(g, m, kt), m.mask))
    return g.optional(g.add(where_masked(g, m, cold, m.low), m.second))


def weighted_values(g: Graph, m: AttentionScores, cold: Tensor, v: Tensor, has_zeros: bool = False) -> Tensor:
    """softmax(masked scores)·v.  The softmax may be in a wider dtype, and fully masked rows may be 0.

    has_zeros: the weights of hidden scores may become 0.
    """
    soft = g.softmax(g.maybe_wider(cold), axis=-1)
    m.read, m.guarded = v, soft
    weights = [nan_guarded(g, m.guarded), soft, *softmax_with_sink(g, m, cold)]
    weights += [where_masked(g, m, soft, m.zero)] if has_zeros else []
    return g.matmul(g.maybe_narrower(g.any_of(*weights)), g.any_of(g.cast(m.read, to=m.wide), m.read))


def softmax_with_sink(g: Graph, m: AttentionScores, cold: Tensor) -> list[Tensor]:
    """Weights of scores next to a sink, optionally with the maximum subtracted, without the weight of the sink."""
    whole = g.named(g.concat(cold, g.any_of(g.expand(m.sink, g.any_tensor()), m.sink), axis=-1))
    shifted = g.any_of(whole, g.sub(whole, g.reduce_max(whole, [-1], keepdims=1)))
    soft = g.softmax(g.maybe_wider(shifted), axis=-1)
    return [g.slice(soft, [0], [-1], [-1], steps) for steps in (None, [1])]
