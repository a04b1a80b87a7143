"""What looks like attention or a rotary embedding and must stay as it is.

Loaded only when an export is made, as it imports torch.
"""

from __future__ import annotations

import torch
from torch import nn

from tests.attention.modules import BIAS, WIDTH, Core, Layer, X, backwards, scores

F = nn.functional
EXPERTS = 4


class ClassSoftmax(nn.Module):
    """Probabilities of classes, and the mean embedding of a class: softmax(x·w)·table, the table a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.table = nn.Linear(WIDTH, 10), nn.Parameter(torch.randn(10, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.scores(x), -1) @ self.table


class SimilarityLoss(nn.Module):
    """A contrastive loss: the softmax of a matrix of similarities is not multiplied with values."""

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        one, two = F.normalize(x, dim=-1), F.normalize(other, dim=-1)
        weights = torch.softmax(one @ two.transpose(1, 2) / 0.07, -1)
        return -torch.log(weights.diagonal(dim1=1, dim2=2)).mean(), weights.sum(-2)


class ExpertRouting(nn.Module):
    """Two experts of four for each word, their results mixed by the router's renormalised probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * WIDTH) * 0.1)
        self.down = nn.Parameter(torch.randn(EXPERTS, 2 * WIDTH, WIDTH) * 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chances = torch.softmax(self.router(x).float(), -1)
        best, places = torch.topk(chances, 2, -1)
        best = (best / best.sum(-1, keepdim=True)).to(x.dtype)
        share = torch.zeros_like(chances, dtype=x.dtype).scatter(-1, places, best)
        made = F.silu(torch.einsum("bsw,ewu->besu", x, self.up))
        every = torch.einsum("besu,euw->bsew", made, self.down)
        return (share.unsqueeze(-2) @ every).squeeze(-2)


class WithWeights(nn.Module):
    """Attention whose weights are an output of the model: no op gives both."""

    def forward(self, q: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        heads = q.view(*q.shape[:2], 4, -1).transpose(1, 2)
        weights = torch.softmax(scores(heads, heads) + bias, -1)
        return weights @ heads, weights


def decoy(core: Core) -> nn.Module:
    """A layer with heads whose core is no attention."""
    return Layer(core, is_counted=False)


class Backwards(nn.Module):
    """Heads turned by a table that is no rotation's, and multiplied."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.view(*x.shape[:2], 4, -1).transpose(1, 2)
        angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * torch.tensor([1.0, 0.1, 0.01, 0.001], dtype=x.dtype)
        return backwards(heads, angles.cos(), angles.sin())


def twice(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The weights go through a second softmax."""
    return torch.softmax(torch.softmax(scores(q, k), -1), -1) @ v


DECOYS = {
    "class_softmax": lambda: (ClassSoftmax(), (X,)),
    "similarity_loss": lambda: (SimilarityLoss(), (X, X)),
    "expert_routing": lambda: (ExpertRouting(), (X,)),
    "query_axis": lambda: (decoy(lambda q, k, v: torch.softmax(scores(q, k), -2) @ v), (X,)),
    "no_softmax": lambda: (decoy(lambda q, k, v: scores(q, k) @ v), (X,)),
    "sigmoid_scores": lambda: (decoy(lambda q, k, v: torch.sigmoid(scores(q, k)) @ v), (X,)),
    "weights_given": lambda: (WithWeights(), (X, BIAS)),
    "softmax_twice": lambda: (decoy(twice), (X,)),
    "turned_the_other_way": lambda: (Backwards(), (X,)),
}
