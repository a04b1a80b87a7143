"""Forms of batch norms at inference, and of what folds into a convolution or a matrix product."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

from tests.matrix.forms import HIDDEN, IMAGE, SIGNAL, TOKENS, Chain, Form, hand, native

F = nn.functional
ROWS, SQUARE, VECTOR, CHANNELS = (3, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN,), (HIDDEN, 1, 1)
SCALE, PAIR, EPS = 1 / sqrt(HIDDEN), (TOKENS, TOKENS), 1e-5


class FixedBatchNorm(nn.Module):
    """Inference of BatchNorm by hand, with its statistics as buffers, as frozen backbones have it."""

    operation = "batch_norm"

    def __init__(self, folded: bool) -> None:
        super().__init__()
        self.folded = folded
        for name in ("weight", "bias", "mean"):
            self.register_buffer(name, 1 + 0.3 * torch.randn(HIDDEN))
        self.register_buffer("var", 0.5 + torch.rand(HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        w, b, m, v = (t.reshape(1, -1, 1, 1) for t in (self.weight, self.bias, self.mean, self.var))
        if self.folded:
            scale = w * (v + EPS).rsqrt()
            return x * scale + (b - m * scale)
        return (x - m) / torch.sqrt(v + EPS) * w + b


class Scaled(nn.Module):
    """Times a weight per channel, plus a bias per channel, or only one of them."""

    def __init__(self, scale: bool, shift: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(1 + 0.3 * torch.randn(CHANNELS)) if scale else None
        self.shift = nn.Parameter(torch.randn(CHANNELS)) if shift else None

    def forward(self, x: Tensor) -> Tensor:
        if self.scale is not None:
            x = x * self.scale
        return x if self.shift is None else x + self.shift


def used(norm: nn.BatchNorm1d | nn.BatchNorm2d) -> nn.Module:
    """A batch norm with statistics as after training."""
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 1.5)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    return norm


def plain_norm() -> FixedBatchNorm:
    """A folded batch norm that is no operation of its own here."""
    norm = FixedBatchNorm(folded=True)
    norm.operation = None
    return norm


def conv(**options: object) -> nn.Conv2d:
    return nn.Conv2d(HIDDEN, HIDDEN, 3, **options)


def chain(operation: str, name: str, *makers: object, shape: tuple[int, ...] = IMAGE) -> Form:
    """Modules in a row, one site as a whole."""
    return Form(f"{operation}.{name}", lambda: Chain(operation, *(make() for make in makers)), (shape,), {operation: 1})


CONVOLUTIONS: tuple[Form, ...] = (
    chain("conv_bn", "nn", conv, lambda: used(nn.BatchNorm2d(HIDDEN))),
    chain("conv_bn", "no_bias", lambda: conv(bias=False), lambda: used(nn.BatchNorm2d(HIDDEN))),
    chain("conv_bn", "depthwise", lambda: conv(groups=HIDDEN), lambda: used(nn.BatchNorm2d(HIDDEN))),
    chain(
        "conv_bn",
        "signal",
        lambda: nn.Conv1d(HIDDEN, HIDDEN, 3),
        lambda: used(nn.BatchNorm1d(HIDDEN)),
        shape=SIGNAL,
    ),
    chain("conv_bn", "frozen", conv, plain_norm),
    chain("conv_mul", "scale", conv, lambda: Scaled(scale=True, shift=False)),
    chain("conv_mul", "scale_no_bias", lambda: conv(bias=False), lambda: Scaled(scale=True, shift=False)),
    chain("conv_add", "shift", conv, lambda: Scaled(scale=False, shift=True)),
    chain("conv_add", "shift_no_bias", lambda: conv(bias=False), lambda: Scaled(scale=False, shift=True)),
    chain("conv_mul", "scale_and_shift", conv, lambda: Scaled(scale=True, shift=True)),
    chain("pad_conv", "zero_pad", lambda: nn.ZeroPad2d(1), conv),
    chain("pad_conv", "uneven", lambda: nn.ZeroPad2d((0, 1, 0, 1)), lambda: conv(stride=2)),
    chain("pad_conv", "padded_twice", lambda: nn.ZeroPad2d(1), lambda: conv(padding=1)),
)

BATCH_NORMS: tuple[Form, ...] = (
    native("batch_norm", "nn", lambda: nn.BatchNorm2d(HIDDEN), IMAGE),
    native("batch_norm", "nn_signal", lambda: nn.BatchNorm1d(HIDDEN), SIGNAL),
    native("batch_norm", "by_hand", lambda: FixedBatchNorm(folded=False), IMAGE),
)


PRODUCTS: tuple[Form, ...] = (
    hand("gemm", "linear", F.linear, SQUARE, VECTOR, shapes=(ROWS,)),
    hand("gemm", "matmul_add", lambda x, w, b: x @ w + b, SQUARE, VECTOR, shapes=(ROWS,)),
    hand("gemm", "bias_first", lambda x, w, b: b + x @ w, SQUARE, VECTOR, shapes=(ROWS,)),
    hand("gemm", "transposed", lambda x, w, b: x @ w.t() + b, SQUARE, VECTOR, shapes=(ROWS,)),
    hand("gemm", "addmm", lambda x, w, b: torch.addmm(b, x, w), SQUARE, VECTOR, shapes=(ROWS,)),
    hand("fused_matmul", "transposed", lambda x, y: x @ y.transpose(-1, -2), shapes=PAIR),
    hand("fused_matmul", "transposed_first", lambda x, y: x.transpose(-1, -2) @ y, shapes=PAIR),
    hand("fused_matmul", "scaled", lambda x, y: (x @ y.transpose(-1, -2)) * SCALE, shapes=PAIR),
    hand("fused_matmul", "divided", lambda x, y: (x @ y.transpose(-1, -2)) / sqrt(HIDDEN), shapes=PAIR),
    hand("fused_matmul", "scaled_first", lambda x, y: (x * SCALE) @ y.transpose(-1, -2), shapes=PAIR),
)
