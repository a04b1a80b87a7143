"""A small network with a Kaiser window, for the notebook is_it_supported: its operators stand in lines of a file."""

import torch
from torch import Tensor, nn


class KaiserWindow(nn.Module):
    """Fade out what is far from the middle: I₀(β·√(1 − t²)) / I₀(β)."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(beta))

    def forward(self, t: Tensor) -> Tensor:
        return torch.i0(self.beta * torch.sqrt(1 - t * t)) / torch.i0(self.beta)


class Network(nn.Module):
    """A layer, squeezed, and windowed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.window = KaiserWindow(5.0)

    def forward(self, x: Tensor) -> Tensor:
        t = torch.tanh(self.layer(x))
        return torch.asinh(x) * self.window(t)
