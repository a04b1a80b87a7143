"""Attention and rotary embeddings as libraries write them by hand: their tables, cuts, masks and scales.

A file of its own, so that exports of the modules in modules.py are kept where one of these changes.  Loaded only when
an export is made, as it imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from tests.attention import modules
from tests.attention.inputs import Input
from tests.attention.modules import BIAS, HEADS, SEEN, SIZE, WIDTH, Core, Layer, Operation, X, attend, scores

F = nn.functional
PLACES = 64
PREFIX = 3
Tables = tuple[torch.Tensor, ...]


def angles() -> torch.Tensor:
    """[places, half a head]."""
    return torch.outer(torch.arange(PLACES).float(), 1.0 / 100 ** (torch.arange(0, SIZE, 2).float() / SIZE))


def doubled(x: torch.Tensor) -> torch.Tensor:
    """The columns twice, beside each other."""
    return torch.cat([x, x], -1)


def repeated(x: torch.Tensor) -> torch.Tensor:
    """Each column twice."""
    return x.repeat_interleave(2, -1)


class Tabled(nn.Module):
    """Attention whose queries and keys are turned by rows of tables that are buffers.

    turn: a function of queries or keys and of rows of the tables.  heads_first: whether it is given
    [batch, heads, rows, columns]; else the heads stand behind the rows.  prefix: rows in front that are not turned.
    """

    def __init__(self, turn: Core, tables: Tables, heads_first: bool = True, prefix: int = 0) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.turn, self.heads_first, self.prefix = Operation("rotary", turn), heads_first, prefix
        self.core = Operation("attention", lambda q, k, v: attend(scores(q, k), v))
        for place, table in enumerate(tables):
            self.register_buffer(f"table{place}", table, persistent=False)
        self.count = len(tables)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, _ = x.shape
        tables = [getattr(self, f"table{place}")[: rows - self.prefix] for place in range(self.count)]
        q, k, v = (part(x).view(batch, rows, HEADS, SIZE) for part in (self.q, self.k, self.v))
        if self.heads_first:
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        if self.prefix:
            q, k = (self.behind(part, tables) for part in (q, k))
        else:
            q, k = (self.turn(part, *tables) for part in (q, k))
        if not self.heads_first:
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        return self.o(self.core(q, k, v).transpose(1, 2).reshape(batch, rows, WIDTH))

    def behind(self, x: torch.Tensor, tables: list[torch.Tensor]) -> torch.Tensor:
        """The rows in front as they are, the others turned, as vision models with a class token do it."""
        return torch.cat([x[:, :, : self.prefix], self.turn(x[:, :, self.prefix :], *tables)], 2)


def rot(x: torch.Tensor) -> torch.Tensor:
    """−b, a for neighbours a, b, as in timm."""
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)


def rot_half(x: torch.Tensor) -> torch.Tensor:
    """The second half, negated, before the first, by slices."""
    return torch.cat([-x[..., SIZE // 2 :], x[..., : SIZE // 2]], -1)


def one_table(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """timm: sines and cosines are chunks of one table, neighbours are turned."""
    sin, cos = table.chunk(2, -1)
    return x * cos + rot(x) * sin


def one_table_halves(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """timm with half=True."""
    sin, cos = table.tensor_split(2, -1)
    return x * cos + rot_half(x) * sin


def gptj(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """GPT-J: the table has each angle once; heads stand behind rows."""
    sin, cos = torch.split(table[None], SIZE // 2, -1)
    sin, cos = (torch.repeat_interleave(one[:, :, None, :], 2, 3) for one in (sin, cos))
    return x * cos + torch.stack([-x[:, :, :, 1::2], x[:, :, :, ::2]], -1).flatten(-2) * sin


def roformer(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """RoFormer: each column stacked with itself."""
    table = table[None, None]
    sin, cos = (torch.stack([one, one], -1).reshape_as(table) for one in table.chunk(2, -1))
    return x * cos + torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape_as(x) * sin


def pairs(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """torchtune, gpt-fast: cosine and sine beside each other in a last axis of two, in float32."""
    wide = x.float().reshape(*x.shape[:-1], -1, 2)
    table = table.view(-1, wide.size(1), 1, wide.size(3), 2)
    made = [
        wide[..., 0] * table[..., 0] - wide[..., 1] * table[..., 1],
        wide[..., 1] * table[..., 0] + wide[..., 0] * table[..., 1],
    ]
    return torch.stack(made, -1).flatten(3).type_as(x)


def as_complex(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """LLaMA's own: a product of complex numbers."""
    whole = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    turn = torch.view_as_complex(table.float())[None, :, None]
    return torch.view_as_real(whole * turn).flatten(3).type_as(x)


def litgpt(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """lit-gpt: tables of whole heads, each half twice, kept in buffers."""
    return x * cos[None, None] + rot_half(x) * sin[None, None]


def x_transformers(x: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
    """x-transformers: angles twice, and pairs unbound."""
    freqs = torch.stack((one, one), -1).flatten(-2)[None, None]
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return x * freqs.cos() + torch.stack((-b, a), -1).flatten(-2) * freqs.sin()


def diffusers(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """diffusers (Flux): pairs unbound, all in float32."""
    real, imag = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    turned = torch.stack([-imag, real], -1).flatten(3)
    return (x.float() * cos[None, None].float() + turned.float() * sin[None, None].float()).to(x.dtype)


def diffusers_halves(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """diffusers (Stable Audio, CogView): halves unbound, heads behind rows."""
    cos, sin = cos[None, :, None], sin[None, :, None]
    real, imag = x.reshape(*x.shape[:-1], 2, -1).unbind(-2)
    return (x.float() * cos.float() + torch.cat([-imag, real], -1).float() * sin.float()).to(x.dtype)


def wan(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """diffusers (Wan): tables of whole heads, of which every other column is taken; heads behind rows."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[None, :, None, ::2], sin[None, :, None, 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def negated_products(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x · cos + (−b · sin, a · sin)."""
    a, b = x.chunk(2, -1)
    return x * doubled(cos) + torch.cat([-b * sin, a * sin], -1)


def halves(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """gpt-oss, vLLM's fallback: each half by its own formula."""
    a, b = torch.chunk(x, 2, -1)
    cos, sin = cos[None, None], sin[None, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def sines_first(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The sum the other way round, the turned half first."""
    return rot_half(x) * doubled(sin) + x * doubled(cos)


def deepseek(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """DeepSeek: neighbours moved apart before halves are turned."""
    batch, heads, rows, size = x.shape
    x = x.view(batch, heads, rows, size // 2, 2).transpose(4, 3).reshape(batch, heads, rows, size)
    return x * cos + rot_half(x) * sin


def rotary(turn: Core, *tables: torch.Tensor, heads_first: bool = True, prefix: int = 0) -> Callable[[], nn.Module]:
    """A module with this rotary embedding."""
    return lambda: Tabled(turn, tables, heads_first, prefix)


def curves(spread: Core = lambda x: x) -> Tables:
    """Cosines and sines."""
    one = spread(angles())
    return one.cos(), one.sin()


def both(spread: Core = lambda x: x) -> torch.Tensor:
    """Sines and cosines in one table."""
    cos, sin = curves(spread)
    return torch.cat([sin, cos], -1)


TURNS: dict[str, Callable[[], nn.Module]] = {
    "rope_one_table": rotary(one_table, both(repeated)),
    "rope_one_table_halves": rotary(one_table_halves, both(doubled)),
    "rope_prefix": rotary(one_table, both(repeated), prefix=PREFIX),
    "rope_prefix_halves": rotary(litgpt, *curves(doubled), prefix=PREFIX),
    "rope_gptj": rotary(gptj, both(), heads_first=False),
    "rope_roformer": rotary(roformer, both()),
    "rope_pairs": rotary(pairs, torch.stack(curves(), -1), heads_first=False),
    "rope_complex": rotary(as_complex, torch.stack(curves(), -1), heads_first=False),
    "rope_litgpt": rotary(litgpt, *curves(doubled)),
    "rope_x_transformers": rotary(x_transformers, angles()),
    "rope_diffusers": rotary(diffusers, *curves(repeated)),
    "rope_diffusers_halves": rotary(diffusers_halves, *curves(doubled), heads_first=False),
    "rope_wan": rotary(wan, *curves(repeated), heads_first=False),
    "rope_negated_products": rotary(negated_products, *curves()),
    "rope_by_halves": rotary(halves, *curves()),
    "rope_sines_first": rotary(sines_first, *curves()),
    "rope_deepseek": rotary(deepseek, *curves(doubled)),
}


class Cosine(Layer):
    """Swin v2: directions of queries and keys, times a number of each head that is bounded, and a bias of each head."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.logit_scale = nn.Parameter(torch.log(10 * torch.rand(HEADS, 1, 1)))
        self.bias = nn.Parameter(torch.randn(HEADS, 1, 1))

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """The core."""
        weights = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        scale = torch.clamp(self.logit_scale, max=math.log(1.0 / 0.01)).exp()
        return attend(weights * scale + self.bias, v)


class Sinks(Layer):
    """gpt-oss: a logit of each head beside those of the keys, which takes weight and gives nothing."""

    def __init__(self, is_shifted: bool) -> None:
        super().__init__(self.attend)
        self.sinks, self.is_shifted = nn.Parameter(torch.randn(HEADS)), is_shifted

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """The core."""
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[-2], -1)
        whole = torch.cat([scores(q, k) + bias, sinks], -1)
        if self.is_shifted:
            whole = whole - whole.max(dim=-1, keepdim=True).values
        return torch.softmax(whole, -1)[..., :-1] @ v


class Disentangled(Layer):
    """DeBERTa: what queries say to positions, and keys to positions, is added to the scores."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.places = nn.Parameter(torch.randn(HEADS, 2 * PLACES, SIZE) * 0.3)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """The core."""
        rows, scale = q.shape[2], math.sqrt(SIZE * 3)
        places = torch.arange(rows)
        apart = (places[:, None] - places[None] + PLACES)[None, None].expand(q.shape[0], HEADS, rows, rows)
        weights = q @ k.transpose(-1, -2) / scale
        to_places = torch.gather(q @ self.places.transpose(-1, -2), -1, apart)
        to_queries = torch.gather(k @ self.places.transpose(-1, -2), -1, apart).transpose(-1, -2)
        return attend(weights + (to_places + to_queries) / scale, v)


class Buffered(Layer):
    """GPT-2, CodeGen, minGPT: a triangle in a buffer, cut to what the scores measure."""

    def __init__(self, kind: str) -> None:
        super().__init__(self.attend)
        self.register_buffer("kept", torch.ones(PLACES, PLACES, dtype=torch.bool).tril()[None, None], persistent=False)
        self.kind = kind

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """The core."""
        weights = scores(q, k)
        rows, keys = weights.shape[-2:]
        if self.kind == "cut":
            kept = self.kept[:, :, keys - rows : keys, :keys]
            return attend(torch.where(kept, weights, torch.full([], torch.finfo(q.dtype).min, dtype=q.dtype)), v)
        if self.kind == "filled":
            return attend(weights.masked_fill(self.kept[:, :, :rows, :keys] == 0, float("-inf")), v)
        if self.kind == "triangle":
            return attend(weights + torch.full((rows, keys), float("-inf"), dtype=q.dtype).triu(1), v)
        if self.kind == "like":
            return attend(weights.masked_fill(torch.ones_like(weights, dtype=torch.bool).triu(1), -1e30), v)
        low = torch.finfo(q.dtype).min
        return attend(weights + torch.where(self.kept[0, 0, :rows, :keys], 0.0, low).to(q.dtype), v)


def low_number(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """A mask spread to the shape of the scores before they are filled."""
    weights = scores(q, k)
    hidden = (~seen).view(-1, 1, 1, weights.shape[-1]).expand_as(weights)
    return attend(weights.masked_fill(hidden, torch.finfo(q.dtype).min), v)


class ChannelsFirst(nn.Module):
    """Channels before rows throughout, as guided diffusion, LDM's autoencoders and LeViT have them."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.qkv, self.o = nn.Conv1d(WIDTH, 3 * WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 1)
        self.shape = (heads, WIDTH // heads) if heads > 1 else (WIDTH,)
        scale = (WIDTH // heads) ** -0.5

        def core(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            weights = torch.softmax(q.transpose(-1, -2) @ k * scale, -1)
            return v @ weights.transpose(-1, -2)

        self.core = Operation("attention", core)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, _ = x.shape
        parts = self.qkv(x.transpose(1, 2)).chunk(3, 1)
        made = self.core(*(part.reshape(batch, *self.shape, rows) for part in parts))
        return self.o(made.reshape(batch, WIDTH, rows)).transpose(1, 2)


class ByEinsum(nn.Module):
    """Heads behind rows whose scores have them last, as LoFTR has it; or heads in one axis with the batch."""

    def __init__(self, has_heads_last: bool) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.has_heads_last = has_heads_last
        self.core = Operation("attention", self.heads_last if has_heads_last else self.in_batch)

    @staticmethod
    def heads_last(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(torch.einsum("nlhd,nshd->nlsh", q, k) * SIZE**-0.5, 2)
        return torch.einsum("nlsh,nshd->nlhd", weights, v)

    @staticmethod
    def in_batch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(torch.einsum("bid,bjd->bij", q, k) * SIZE**-0.5, -1)
        return torch.einsum("bij,bjd->bid", weights, v)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, _ = x.shape
        parts = (part(x).view(batch, rows, HEADS, SIZE) for part in (self.q, self.k, self.v))
        if self.has_heads_last:
            return self.o(self.core(*parts).reshape(batch, rows, WIDTH))
        made = self.core(*(part.transpose(1, 2).reshape(batch * HEADS, rows, SIZE) for part in parts))
        return self.o(made.view(batch, HEADS, rows, SIZE).transpose(1, 2).reshape(batch, rows, WIDTH))


CORES: dict[str, Callable[[], tuple[nn.Module, tuple[Input, ...]]]] = {
    "cosine": lambda: (Cosine(), (X,)),
    "sinks": lambda: (Sinks(False), (X, BIAS)),
    "sinks_shifted": lambda: (Sinks(True), (X, BIAS)),
    "disentangled": lambda: (Disentangled(), (X,)),
    "mask_cut": lambda: (Buffered("cut"), (X,)),
    "mask_filled": lambda: (Buffered("filled"), (X,)),
    "mask_triangle": lambda: (Buffered("triangle"), (X,)),
    "mask_like": lambda: (Buffered("like"), (X,)),
    "mask_where": lambda: (Buffered("where"), (X,)),
    "mask_expanded": lambda: (Layer(low_number), (X, SEEN)),
    "channels_first": lambda: (ChannelsFirst(1), (X,)),
    "channels_first_heads": lambda: (ChannelsFirst(HEADS), (X,)),
    "heads_last": lambda: (ByEinsum(True), (X,)),
    "heads_in_batch": lambda: (ByEinsum(False), (X,)),
}


def turning(make: Callable[[], nn.Module]) -> Callable[[], tuple[nn.Module, tuple[Input, ...]]]:
    """A module of TURNS with its inputs."""
    return lambda: (make(), (X,))


FORMS = {**CORES, **{name: turning(make) for name, make in TURNS.items()}}


def register() -> None:
    """Let torch_export.build know these modules."""
    modules.FORMS.update(FORMS)
