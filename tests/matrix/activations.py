"""Forms of activations: GELU and its kin, the sigmoid family, the exponential family, the piecewise linear, softmax."""

from __future__ import annotations

from math import pi, sqrt

import torch
from torch import nn

from tests.matrix.forms import HIDDEN, SEQUENCE, Form, called, hand, native

F = nn.functional
SQRT2, KAPPA = sqrt(2.0), sqrt(2 / pi)
LEAK, SELU_ALPHA, SELU_SCALE = 0.1, 1.6732632423543772, 1.0507009873554805


def geglu(x: torch.Tensor) -> torch.Tensor:
    """gelu(a) · b of the two halves of the last axis."""
    a, b = x.chunk(2, dim=-1)
    return F.gelu(a) * b


def swiglu(x: torch.Tensor) -> torch.Tensor:
    """silu(a) · b of the two halves of the last axis."""
    a, b = x.chunk(2, dim=-1)
    return F.silu(a) * b


def softmax(x: torch.Tensor, axis: int = -1) -> torch.Tensor:
    """exp(x − max) / Σ exp(x − max)."""
    e = torch.exp(x - x.amax(axis, keepdim=True))
    return e / e.sum(axis, keepdim=True)


def softmax_of_max_values(x: torch.Tensor) -> torch.Tensor:
    """The same with `max`, which gives the places too."""
    e = (x - x.max(dim=-1, keepdim=True).values).exp()
    return e / torch.sum(e, dim=-1, keepdim=True)


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    """x − max − log Σ exp(x − max)."""
    shifted = x - x.amax(-1, keepdim=True)
    return shifted - shifted.exp().sum(-1, keepdim=True).log()


GELUS: tuple[Form, ...] = (
    native("gelu", "nn", nn.GELU),
    called("gelu", "function", F.gelu),
    native("gelu", "twice", lambda: nn.Sequential(nn.GELU(), nn.Linear(HIDDEN, HIDDEN), nn.GELU()), sites=2),
    native("gelu", "after_linear", lambda: nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.GELU())),
    native("gelu", "after_linear_2d", lambda: nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.GELU()), (3, HIDDEN)),
    called("gelu", "geglu", geglu),
    hand("gelu", "half_first", lambda x: 0.5 * x * (1.0 + torch.erf(x / SQRT2))),
    hand("gelu", "half_last", lambda x: x * (1.0 + torch.erf(x / SQRT2)) * 0.5),
    hand("gelu", "half_inside", lambda x: x * (0.5 * (1.0 + torch.erf(x / SQRT2)))),
    hand("gelu", "divided_by_two", lambda x: x * (torch.erf(x / SQRT2) + 1.0) / 2.0),
    hand("gelu", "times_reciprocal", lambda x: 0.5 * (1.0 + (x * (1 / SQRT2)).erf()) * x),
    hand(
        "gelu", "sqrt_tensor", lambda x: x * 0.5 * (1.0 + torch.erf(x / torch.sqrt(torch.tensor(2.0, dtype=x.dtype))))
    ),
    hand("bias_gelu", "function", lambda x, b: F.gelu(x + b), (HIDDEN,)),
    hand("bias_gelu", "bias_first", lambda x, b: F.gelu(b + x), (HIDDEN,)),
    hand("bias_gelu", "matmul", lambda x, w, b: F.gelu(x @ w + b), (HIDDEN, HIDDEN), (HIDDEN,)),
    hand("bias_gelu", "by_hand", lambda x, b: (x + b) * 0.5 * (1.0 + torch.erf((x + b) / SQRT2)), (HIDDEN,)),
    native("gelu_tanh", "nn", lambda: nn.GELU("tanh")),
    called("gelu_tanh", "function", lambda x: F.gelu(x, approximate="tanh")),
    hand("gelu_tanh", "pow", lambda x: 0.5 * x * (1.0 + torch.tanh(KAPPA * (x + 0.044715 * torch.pow(x, 3.0))))),
    hand("gelu_tanh", "products", lambda x: 0.5 * x * (1.0 + torch.tanh(KAPPA * (x + 0.044715 * x * x * x)))),
    hand("gelu_tanh", "factored", lambda x: 0.5 * x * (1.0 + torch.tanh(x * KAPPA * (1.0 + 0.044715 * x * x)))),
    hand("gelu_tanh", "factored_square", lambda x: x * 0.5 * (1.0 + torch.tanh(KAPPA * x * (1 + 0.044715 * x**2)))),
    hand("quick_gelu", "clip", lambda x: x * torch.sigmoid(1.702 * x)),
    hand("quick_gelu", "sigmoid_first", lambda x: torch.sigmoid(x * 1.702) * x),
)

SIGMOIDS: tuple[Form, ...] = (
    native("silu", "nn", nn.SiLU),
    called("silu", "function", F.silu),
    called("silu", "swiglu", swiglu),
    hand("silu", "sigmoid", lambda x: x * torch.sigmoid(x)),
    hand("silu", "sigmoid_first", lambda x: x.sigmoid() * x),
    hand("silu", "exponential", lambda x: x / (1.0 + torch.exp(-x))),
    native("hardswish", "nn", nn.Hardswish),
    hand("hardswish", "relu6", lambda x: x * F.relu6(x + 3.0) / 6.0),
    hand("hardswish", "relu6_divided_first", lambda x: x * (F.relu6(x + 3.0) / 6.0)),
    hand("hardswish", "hardsigmoid", lambda x: x * F.hardsigmoid(x)),
    hand("hardswish", "clamp", lambda x: x * torch.clamp(x + 3.0, 0.0, 6.0) * (1 / 6)),
    native("hardsigmoid", "nn", nn.Hardsigmoid),
    hand("hardsigmoid", "relu6", lambda x: F.relu6(x + 3.0) / 6.0),
    hand("hardsigmoid", "clamp", lambda x: torch.clamp(x + 3.0, 0.0, 6.0) / 6.0),
    hand("hardsigmoid", "clamp_to_one", lambda x: torch.clamp(x / 6.0 + 0.5, 0.0, 1.0)),
    native("mish", "nn", nn.Mish),
    hand("mish", "softplus", lambda x: x * torch.tanh(F.softplus(x))),
    hand("mish", "log_exp", lambda x: x * torch.tanh(torch.log(1.0 + torch.exp(x)))),
    hand("mish", "tanh_first", lambda x: torch.tanh(F.softplus(x)) * x),
    native("softplus", "nn", nn.Softplus),
    native("softplus", "beta", lambda: nn.Softplus(beta=2.0)),
    hand("softplus", "log_exp", lambda x: torch.log(1.0 + torch.exp(x))),
    hand("softplus", "log1p_exp", lambda x: torch.log1p(torch.exp(x))),
)

LINEAR_UNITS: tuple[Form, ...] = (
    native("elu", "nn", nn.ELU),
    native("elu", "nn_alpha", lambda: nn.ELU(0.5)),
    hand("elu", "where", lambda x: torch.where(x > 0, x, torch.exp(x) - 1.0)),
    hand("elu", "where_expm1", lambda x: torch.where(x > 0, x, 0.5 * torch.expm1(x))),
    hand("elu", "relu_and_minimum", lambda x: F.relu(x) + torch.clamp(torch.exp(x) - 1.0, max=0.0)),
    native("selu", "nn", nn.SELU),
    hand("selu", "where", lambda x: SELU_SCALE * torch.where(x > 0, x, SELU_ALPHA * (torch.exp(x) - 1.0))),
    hand("selu", "elu", lambda x: SELU_SCALE * F.elu(x, SELU_ALPHA)),
    native("celu", "nn", nn.CELU),
    native("celu", "nn_alpha", lambda: nn.CELU(0.5)),
    hand("celu", "relu_and_clamp", lambda x: F.relu(x) + torch.clamp(0.5 * (torch.exp(x / 0.5) - 1.0), max=0.0)),
    native("leaky_relu", "nn", nn.LeakyReLU),
    hand("leaky_relu", "where", lambda x: torch.where(x > 0, x, LEAK * x)),
    hand("leaky_relu", "where_at_zero", lambda x: torch.where(x >= 0, x, x * LEAK)),
    hand("leaky_relu", "maximum", lambda x: torch.maximum(x, LEAK * x)),
    hand("leaky_relu", "two_relus", lambda x: F.relu(x) - LEAK * F.relu(-x)),
    native("prelu", "nn", nn.PReLU),
    native("prelu", "nn_channels", lambda: nn.PReLU(SEQUENCE)),
    hand("prelu", "where", lambda x, w: torch.where(x > 0, x, w * x), (HIDDEN,)),
    hand("prelu", "relu_and_minimum", lambda x, w: F.relu(x) + w * torch.clamp(x, max=0.0), (HIDDEN,)),
    hand("prelu", "two_relus", lambda x, w: F.relu(x) - w * F.relu(-x), (HIDDEN,)),
    native("relu6", "nn", nn.ReLU6),
    hand("relu6", "clamp", lambda x: torch.clamp(x, 0.0, 6.0)),
    hand("relu6", "relu_and_clamp", lambda x: torch.clamp(F.relu(x), max=6.0)),
    hand("relu6", "minimum_of_maximum", lambda x: torch.minimum(F.relu(x), torch.tensor(6.0, dtype=x.dtype))),
    hand("relu6", "two_clamps", lambda x: x.clamp_min(0.0).clamp_max(6.0)),
)

SOFTMAXES: tuple[Form, ...] = (
    hand("softmax", "torch", lambda x: torch.softmax(x, -1)),
    hand("softmax", "primitives", softmax),
    hand("softmax", "primitives_axis_1", lambda x: softmax(x, 1)),
    hand("softmax", "max_values", softmax_of_max_values),
    hand("softmax", "scaled", lambda x: softmax(x * 0.25)),
    hand("log_softmax", "torch", lambda x: F.log_softmax(x, -1)),
    hand("log_softmax", "primitives", log_softmax),
    hand("log_softmax", "log_of_softmax", lambda x: torch.log(torch.softmax(x, -1))),
    hand("log_softmax", "logsumexp", lambda x: x - torch.logsumexp(x, -1, keepdim=True)),
)
