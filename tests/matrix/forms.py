"""What a form is: one spelling of an operation as a torch module, with the sites it declares and the inputs it takes.

The declared sites are checked against `tests.truth.count`, which runs the module; nothing here looks at a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

HIDDEN, SEQUENCE = 16, 5
TOKENS = (2, SEQUENCE, HIDDEN)
"""[batch, sequence, hidden], the inputs of most forms; the batch is the axis that may be dynamic."""
IMAGE = (2, HIDDEN, 6, 6)
"""[batch, channels, height, width]."""
SIGNAL = (2, HIDDEN, 9)
"""[batch, channels, length]."""


@dataclass(frozen=True)
class Form:
    """One spelling: `build` makes the module, `shapes` are those of its float inputs.

    sites: how often each operation runs in one pass, by rule name; empty for a decoy.
    """

    name: str
    build: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...] = (TOKENS,)
    sites: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_decoy(self) -> bool:
        """Whether no rule may fire."""
        return not self.sites

    def make(self, dtype: torch.dtype) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        """The module in evaluation mode with seeded weights, and its inputs."""
        torch.manual_seed(0)
        module = self.build().eval().to(dtype)
        return module, tuple(torch.randn(shape).to(dtype) for shape in self.shapes)


class Written(nn.Module):
    """An operation written out by hand: `function` of the inputs and then of the parameters."""

    def __init__(self, operation: str | None, function: Callable[..., Any], *parameters: tuple[int, ...]) -> None:
        super().__init__()
        self.operation = operation
        self.function = function
        self.weights = nn.ParameterList(1 + 0.3 * torch.randn(shape) for shape in parameters)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs, *self.weights)


class Chain(nn.Sequential):
    """Modules one after the other that are one operation as a whole."""

    def __init__(self, operation: str | None, *modules: nn.Module) -> None:
        super().__init__(*modules)
        self.operation = operation


def native(operation: str, name: str, build: Callable[[], nn.Module], *shapes: tuple[int, ...], sites: int = 1) -> Form:
    """A form of modules that torch has; they are counted as they run."""
    return Form(f"{operation}.{name}", build, shapes or (TOKENS,), {operation: sites})


def hand(
    operation: str,
    name: str,
    function: Callable[..., Any],
    *parameters: tuple[int, ...],
    shapes: tuple[tuple[int, ...], ...] = (TOKENS,),
) -> Form:
    """A form written out by hand, one site."""
    return Form(f"{operation}.{name}", lambda: Written(operation, function, *parameters), shapes, {operation: 1})


def called(operation: str, name: str, function: Callable[..., Any], *shapes: tuple[int, ...]) -> Form:
    """A form that calls torch's function for the operation; the call itself is counted."""
    return Form(f"{operation}.{name}", lambda: Written(None, function), shapes or (TOKENS,), {operation: 1})


def decoy(
    name: str,
    function: Callable[..., Any],
    *parameters: tuple[int, ...],
    shapes: tuple[tuple[int, ...], ...] = (TOKENS,),
) -> Form:
    """What only looks like an operation: no site."""
    return Form(f"decoy.{name}", lambda: Written(None, function, *parameters), shapes)
