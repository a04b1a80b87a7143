"""A small decoder as models of today are written: grouped queries, rotary embeddings, RMSNorm and SwiGLU."""

import math

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) · weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """x: [batch, rows, width]."""
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """One half of each head turned against the other."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Eight heads of queries share two of keys and values."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.size, bias=False)
        self.v = nn.Linear(width, groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """x: [batch, rows, width]; mask: added to the scores."""
        batch, rows, _ = x.shape
        q = self.q(x).view(batch, rows, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(batch, rows, self.groups, self.size).transpose(1, 2)
        v = self.v(x).view(batch, rows, self.groups, self.size).transpose(1, 2)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        copies = self.heads // self.groups
        k, v = k.repeat_interleave(copies, dim=1), v.repeat_interleave(copies, dim=1)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.size) + mask, dim=-1)
        return self.o((weights @ v).transpose(1, 2).reshape(batch, rows, -1))


class Layer(nn.Module):
    """Attention and a gated MLP, each behind a norm and beside the residual."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.attention, self.norm, self.second_norm = Attention(width, heads, groups), RMSNorm(width), RMSNorm(width)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """x: [batch, rows, width]."""
        x = x + self.attention(self.norm(x), cos, sin, mask)
        y = self.second_norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Logits of the next token, for every token."""

    def __init__(self, tokens: int = 96, width: int = 128, heads: int = 8, groups: int = 2, layers: int = 2) -> None:
        super().__init__()
        size = width // heads
        self.embedding = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(width, heads, groups) for _ in range(layers))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, tokens, bias=False)
        self.register_buffer("frequencies", 10000.0 ** -(torch.arange(0, size, 2) / size))

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: [batch, rows], int64."""
        rows = tokens.shape[1]
        angles = torch.arange(rows)[:, None] * self.frequencies
        angles = torch.cat((angles, angles), dim=-1)
        mask = torch.full((rows, rows), float("-inf")).triu(1)
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin(), mask)
        return self.head(self.norm(x))
