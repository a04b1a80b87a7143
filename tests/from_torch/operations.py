"""Operations to learn from, and others that are nearly the same and must be spared."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


class RMS(nn.Module):
    """x / √(mean(x²) + ε) · w."""

    def __init__(self, size: int = 8, eps: float = 1e-6, power: int = 2) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps, self.power = eps, power

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(self.power).mean(-1, keepdim=True) + self.eps) * self.weight


class SwiGLU(nn.Module):
    """A gated feed-forward layer (Shazeer, arXiv:2002.05202)."""

    def __init__(self, size: int = 8, inner: int = 12) -> None:
        super().__init__()
        self.gate = nn.Linear(size, inner, bias=False)
        self.up = nn.Linear(size, inner, bias=False)
        self.down = nn.Linear(inner, size, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(hidden)) * self.up(hidden))


class GLU(SwiGLU):
    """The same without the linear factor of the SiLU."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.down(self.gate(hidden).sigmoid() * self.up(hidden))


class Halved(nn.Module):
    """A placeholder and what is done with it."""

    def __init__(self, factor: int = 2, shift: int = 1) -> None:
        super().__init__()
        self.factor, self.shift = factor, shift

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.learnlib.halve(x, self.factor) + self.shift


def linear_elu(size: int = 8, inner: int = 6) -> nn.Module:
    """A layer and its activation."""
    return nn.Sequential(nn.Linear(size, inner), nn.ELU())


def rms_of(x: torch.Tensor, scale: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """The same normalisation as a function."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * scale


def scaled_gelu(x: torch.Tensor) -> torch.Tensor:
    """Not a GELU: 0.4 is not one half."""
    return 0.4 * x * (1 + torch.erf(x / 2**0.5))


def scaled_tanh(x: torch.Tensor) -> torch.Tensor:
    """Not a GELU either."""
    return 0.4 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def slow_silu(x: torch.Tensor) -> torch.Tensor:
    """Not a SiLU."""
    return x * torch.sigmoid(0.4 * x)


def other_norm(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """A layer normalisation of powers of three."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(3).mean(-1, keepdim=True) + 1e-5).sqrt() * scale + 1.0


class Wrapped(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


@dataclass(frozen=True, eq=False)
class Operation:
    """What to learn, by which arguments and inputs, and another that has it and one that has not.

    fresh: makes a module and inputs of other sizes.  decoy: likewise.  parameters: those of every form.
    """

    title: str
    what: Any
    shapes: tuple[tuple[int, ...], ...]
    fresh: Callable[[], tuple[nn.Module, tuple[tuple[int, ...], ...]]]
    decoy: Callable[[], tuple[nn.Module, tuple[tuple[int, ...], ...]]]
    parameters: tuple[str, ...]
    arguments: dict[str, Any] = field(default_factory=dict)
    placeholders: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.title


OPERATIONS = (
    Operation(
        "GELU",
        nn.GELU(),
        ((2, 3),),
        lambda: (nn.GELU(), ((3, 5, 7),)),
        lambda: (Wrapped(scaled_gelu), ((2, 3),)),
        ("x",),
    ),
    Operation(
        "GELU by tanh",
        "torch.nn:GELU",
        ((2, 3),),
        lambda: (nn.GELU(approximate="tanh"), ((5, 7),)),
        lambda: (Wrapped(scaled_tanh), ((2, 3),)),
        ("x",),
        {"approximate": "tanh"},
    ),
    Operation(
        "SiLU",
        nn.SiLU,
        ((2, 3),),
        lambda: (nn.SiLU(), ((4, 4, 4),)),
        lambda: (Wrapped(slow_silu), ((2, 3),)),
        ("x",),
    ),
    Operation(
        "LayerNorm",
        nn.LayerNorm,
        ((2, 8),),
        lambda: (nn.LayerNorm(6, eps=1e-3), ((3, 6),)),
        lambda: (Wrapped(other_norm), ((2, 8), (8,))),
        ("x", "weight", "bias", "epsilon"),
        {"normalized_shape": 8},
    ),
    Operation(
        "RMS norm",
        RMS,
        ((2, 8),),
        lambda: (RMS(6, 1e-4), ((3, 5, 6),)),
        lambda: (RMS(8, 1e-6, power=3), ((2, 8),)),
        ("x", "weight", "epsilon"),
    ),
    Operation(
        "RMS norm as a function",
        rms_of,
        ((2, 8), (8,)),
        lambda: (Wrapped(rms_of), ((3, 5, 6), (6,))),
        lambda: (RMS(8, 1e-6, power=3), ((2, 8),)),
        ("x", "scale", "epsilon"),
    ),
    Operation(
        "SwiGLU",
        SwiGLU,
        ((2, 5, 8),),
        lambda: (SwiGLU(6, 10), ((3, 4, 6),)),
        lambda: (GLU(), ((2, 5, 8),)),
        ("hidden", "gate_weight", "up_weight", "down_weight"),
    ),
    Operation(
        "linear and ELU",
        linear_elu,
        ((2, 8),),
        lambda: (linear_elu(5, 7), ((3, 5),)),
        lambda: (nn.Sequential(nn.Linear(8, 6), nn.CELU(0.4)), ((2, 8),)),
        ("x", "weight", "bias", "alpha"),
    ),
    Operation(
        "placeholder",
        Halved,
        ((2, 8),),
        lambda: (Halved(5), ((4, 3),)),
        lambda: (Halved(2, shift=3), ((2, 8),)),
        ("x", "factor"),
        {"factor": 2},
        ("learnlib::halve",),
    ),
)
