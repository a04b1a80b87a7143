"""Attention written with torch alone, in many forms, and what only looks like it.

Loaded only when an export is made, as it imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from tests.attention.inputs import Input

F = nn.functional
WIDTH, HEADS, SIZE = 32, 4, 8
X = Input("real", ("batch", "sequence", WIDTH))
SEEN = Input("seen", ("batch", 1, 1, "sequence"))
BIAS = Input("bias", ("batch", 1, "sequence", "sequence"))
Core = Callable[..., torch.Tensor]


class Operation(nn.Module):
    """A function that counts as one operation: "attention" or "rotary"."""

    def __init__(self, operation: str, function: Core) -> None:
        super().__init__()
        self.operation, self.function = operation, function

    def forward(self, *inputs: torch.Tensor | None) -> torch.Tensor:
        return self.function(*inputs)


class Layer(nn.Module):
    """Projections of [batch, sequence, width], heads, a core, and a projection out.

    core: a function of queries, keys, values of [batch, heads, rows, size] and perhaps a mask.  Called with a mask of
    four axes, or with another sequence for keys and values.  is_counted: whether the core
    is one operation; where it calls torch's own it is counted by that.  turn: a rotary embedding of queries and keys.
    """

    def __init__(self, core: Core, is_counted: bool = True, turn: Core | None = None, kv_heads: int = HEADS) -> None:
        super().__init__()
        self.q, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, kv_heads * SIZE), nn.Linear(WIDTH, kv_heads * SIZE)
        self.kv_heads = kv_heads
        self.core: Core = Operation("attention", core) if is_counted else core
        self.turn = Operation("rotary", turn) if turn else None
        inverse = 1.0 / 10000 ** (torch.arange(0, SIZE, 2).float() / SIZE)
        self.register_buffer("angles", torch.outer(torch.arange(64).float(), inverse))

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        memory = x if other is None or other.ndim == 4 else other
        batch, rows, _ = x.shape
        q = self.q(x).view(batch, rows, HEADS, SIZE).transpose(1, 2)
        shape = batch, memory.shape[1], self.kv_heads, SIZE
        k, v = (part(memory).view(shape).transpose(1, 2) for part in (self.k, self.v))
        if self.turn is not None:
            angles = self.angles[:rows].to(x.dtype)
            q, k = (self.turn(part, angles.cos(), angles.sin()) for part in (q, k))
        y = self.core(q, k, v) if other is None or other.ndim == 3 else self.core(q, k, v, other)
        return self.o(y.transpose(1, 2).reshape(batch, rows, WIDTH))


class Packed(nn.Module):
    """One projection for all three, cut by unbind, as in vision models."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, _ = x.shape
        q, k, v = self.qkv(x).reshape(batch, rows, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4).unbind(0)
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, rows, WIDTH))


class Multihead(nn.Module):
    """torch's own layer, without its weights as an output, and without its fast path, which no exporter knows."""

    def __init__(self) -> None:
        super().__init__()
        torch.backends.mha.set_fastpath_enabled(False)
        self.layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x: torch.Tensor, seen: torch.Tensor | None = None) -> torch.Tensor:
        hidden = None if seen is None else ~seen[:, 0, 0]
        found: torch.Tensor = self.layer(x, x, x, key_padding_mask=hidden, need_weights=False)[0]
        return found


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """q·kᵀ / √size."""
    return q @ k.transpose(-1, -2) / math.sqrt(SIZE)


def attend(weights: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """softmax over the keys, times the values."""
    return torch.softmax(weights, -1) @ v


def causal(weights: torch.Tensor) -> torch.Tensor:
    """The scores, those of later keys −∞."""
    rows = weights.shape[-1]
    return weights.masked_fill(torch.ones(rows, rows, dtype=torch.bool).triu(1), float("-inf"))


def where_causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A choice by the places, and the lowest number."""
    places = torch.arange(q.shape[2])
    kept = places[:, None] >= places[None]
    return attend(torch.where(kept, scores(q, k), torch.finfo(q.dtype).min), v)


def wide_softmax(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The softmax in float32."""
    return torch.softmax(causal(scores(q, k)), -1, dtype=torch.float32).to(q.dtype) @ v


def three_axes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Batch and heads as one axis, by bmm."""
    batch, heads, rows, size = q.shape
    one, two, three = (part.reshape(batch * heads, -1, size) for part in (q, k, v))
    weights = torch.bmm(one * SIZE**-0.5, two.transpose(1, 2))
    if bias is not None:
        weights = (weights.view(batch, heads, rows, -1) + bias).view(batch * heads, rows, -1)
    return torch.bmm(torch.softmax(weights, -1), three).view(batch, heads, rows, size)


def einsum(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Both products by einsum."""
    weights = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k) * SIZE**-0.5, -1)
    return torch.einsum("bhij,bhjd->bhid", weights, v)


def alibi(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A slope for each head times the distance, added to causal scores."""
    slopes = torch.tensor([2.0 ** (-2 * (head + 1)) for head in range(HEADS)], dtype=q.dtype)
    places = torch.arange(q.shape[2])
    distances = (places[None] - places[:, None]).to(q.dtype)
    return attend(causal(scores(q, k) + slopes[:, None, None] * distances), v)


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Each head of keys for two of queries."""
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def half(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """One half turned against the other."""
    a, b = x.chunk(2, -1)
    return x * torch.cat([cos, cos], -1) + torch.cat([-b, a], -1) * torch.cat([sin, sin], -1)


def interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Each even number turned against the odd one behind it."""
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def partly(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The first half of a head turned, the rest as it is."""
    return torch.cat([half(x[..., : SIZE // 2], cos[..., : SIZE // 4], sin[..., : SIZE // 4]), x[..., SIZE // 2 :]], -1)


def backwards(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """As `half`, but with the other half negated: no rotary embedding turns so."""
    a, b = x.chunk(2, -1)
    return x * torch.cat([cos, cos], -1) + torch.cat([b, -a], -1) * torch.cat([sin, -sin], -1)


def with_mask(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """torch's own with a mask, boolean or float."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


FORMS: dict[str, Callable[[], tuple[nn.Module, tuple[Input, ...]]]] = {
    "multihead": lambda: (Multihead(), (X,)),
    "multihead_masked": lambda: (Multihead(), (X, SEEN)),
    "sdpa": lambda: (Layer(F.scaled_dot_product_attention, False), (X,)),
    "sdpa_causal": lambda: (
        Layer(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), False),
        (X,),
    ),
    "sdpa_float_mask": lambda: (Layer(with_mask, False), (X, BIAS)),
    "sdpa_bool_mask": lambda: (Layer(with_mask, False), (X, SEEN)),
    "sdpa_scale": lambda: (Layer(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.2), False), (X,)),
    "sdpa_grouped": lambda: (Layer(grouped, False, kv_heads=2), (X,)),
    "sdpa_cross": lambda: (
        Layer(F.scaled_dot_product_attention, False),
        (X, Input("real", ("batch", "memory", WIDTH))),
    ),
    "scale_on_q": lambda: (Layer(lambda q, k, v: attend((q * SIZE**-0.5) @ k.transpose(-1, -2), v)), (X,)),
    "scale_on_both": lambda: (
        Layer(lambda q, k, v: attend((q * SIZE**-0.25) @ (k * SIZE**-0.25).transpose(-1, -2), v)),
        (X,),
    ),
    "scale_by_div": lambda: (Layer(lambda q, k, v: attend(scores(q, k), v)), (X,)),
    "scale_on_k": lambda: (Layer(lambda q, k, v: attend(q @ (k.transpose(-1, -2) / math.sqrt(SIZE)), v)), (X,)),
    "masked_fill": lambda: (
        Layer(lambda q, k, v, seen: attend(scores(q, k).masked_fill(~seen, torch.finfo(q.dtype).min), v)),
        (X, SEEN),
    ),
    "where_causal": lambda: (Layer(where_causal), (X,)),
    "wide_softmax": lambda: (Layer(wide_softmax), (X,)),
    "three_axes": lambda: (Layer(three_axes), (X,)),
    "three_axes_masked": lambda: (Layer(three_axes), (X, BIAS)),
    "einsum": lambda: (Layer(einsum), (X,)),
    "alibi": lambda: (Layer(alibi), (X,)),
    "packed": lambda: (Packed(), (X,)),
    "rope_half": lambda: (Layer(lambda q, k, v: attend(causal(scores(q, k)), v), turn=half), (X,)),
    "rope_interleaved": lambda: (Layer(lambda q, k, v: attend(scores(q, k), v), turn=interleaved), (X,)),
    "rope_partial": lambda: (Layer(F.scaled_dot_product_attention, False, turn=partly), (X,)),
}
