"""A model that computes means and variances which are no norms, around an encoder that has real ones.

What must stay as it is: features standardised by statistics of their own sequence (over frames, not channels), by
stored ones, and with Bessel's correction; a deviation used as a feature; weights that are nearly a softmax; losses.
"""

from __future__ import annotations

import torch
from torch import nn


class OverFrames(nn.Module):
    """(x − mean) / (std + ε) over the frames of each sequence, as speech front ends do; ε stands outside the root."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(1, keepdim=True)
        return centred / (centred.square().mean(1, keepdim=True).sqrt() + 1e-5)


class Stored(nn.Module):
    """(x − mean) / √(variance + ε) with statistics of the training data, kept in the model."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.randn(size))
        self.register_buffer("variance", torch.rand(size) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) / torch.sqrt(self.variance + 1e-5)


class Unbiased(nn.Module):
    """(x − mean) / √(variance + ε) over channels, the variance over n − 1: no LayerNorm divides by that."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5)


class Contrast(nn.Module):
    """x − mean over √(mean of the squares of x): the root is not that of the centred value."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5)


class Pooling(nn.Module):
    """Attentive statistics: mean and deviation over frames; the weights are no softmax, as ε stands in the sum."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scores = nn.Linear(size, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.scores(x)
        weights = torch.exp(scores - scores.amax(1, keepdim=True))
        weights = weights / (weights.sum(1, keepdim=True) + 1e-4)
        mean = (weights * x).sum(1)
        variance = (weights * x.square()).sum(1) - mean.square()
        return torch.cat([mean, torch.sqrt(variance.clamp(min=1e-5))], -1)


class Attention(nn.Module):
    """Attention of several heads on its own input; nn.MultiheadAttention fixes the batch when it is traced."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inputs, self.outputs = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, frames, size = x.shape
        split = self.inputs(x).reshape(batch, frames, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(split[0], split[1], split[2])
        return self.outputs(mixed.transpose(1, 2).reshape(batch, frames, size))


class FeatureClassifier(nn.Module):
    """Standardised features, an encoder layer with two LayerNorms and a GELU, pooling, and two losses beside logits."""

    def __init__(self, features: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.standardise = nn.Sequential(Stored(features), OverFrames(), Unbiased(), Contrast())
        self.project = nn.Linear(features, hidden)
        self.attention = Attention(hidden, heads)
        self.norms = nn.ModuleList([nn.LayerNorm(hidden), nn.LayerNorm(hidden)])
        self.feed_forward = nn.Sequential(nn.Linear(hidden, 2 * hidden), nn.GELU(), nn.Linear(2 * hidden, hidden))
        self.pool = Pooling(hidden)
        self.classify = nn.Linear(2 * hidden, 2)

    def forward(
        self, features: torch.Tensor, labels: torch.Tensor, return_dict: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.project(self.standardise(features))
        x = self.norms[0](x + self.attention(x))
        x = self.norms[1](x + self.feed_forward(x))
        logits = self.classify(self.pool(x))
        spread = (x - x.mean(-1, keepdim=True)).square().mean()
        loss = nn.functional.cross_entropy(logits, labels) + nn.functional.mse_loss(x, x.detach() * 0.5) + spread
        return loss, logits
