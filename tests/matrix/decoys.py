"""What only looks like an operation: wrong constants, wrong axes, other norms, statistics and losses."""

from __future__ import annotations

from math import pi, sqrt

import torch
from torch import Tensor, nn

from tests.matrix.forms import HIDDEN, IMAGE, TOKENS, Form, decoy

F = nn.functional
EPS, VECTOR, PAIR = 1e-5, (HIDDEN,), (TOKENS, TOKENS)


def mean(x: Tensor, axis: int | tuple[int, ...] = -1) -> Tensor:
    return x.mean(axis, keepdim=True)


def spread(x: Tensor, axis: int | tuple[int, ...] = -1) -> Tensor:
    """Mean of squares of the centred values."""
    return mean((x - mean(x, axis)).pow(2), axis)


def standardised(x: Tensor, axis: int | tuple[int, ...]) -> Tensor:
    return (x - mean(x, axis)) / torch.sqrt(spread(x, axis) + EPS)


def normalised_sum(x: Tensor) -> Tensor:
    """exp(x − mean) / Σ: the mean where softmax has the maximum, over an axis that the sum does not take."""
    e = torch.exp(x - x.amax(1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def off_by_one_softmax(x: Tensor) -> Tensor:
    """exp / (1 + Σ exp), the "quiet" softmax."""
    e = torch.exp(x)
    return e / (1.0 + e.sum(-1, keepdim=True))


ACTIVATIONS: tuple[Form, ...] = (
    decoy("gelu_wrong_root", lambda x: 0.5 * x * (1.0 + torch.erf(x / 1.5))),
    decoy("gelu_wrong_half", lambda x: 0.6 * x * (1.0 + torch.erf(x / sqrt(2)))),
    decoy("gelu_minus_erf", lambda x: 0.5 * x * (1.0 - torch.erf(x / sqrt(2)))),
    decoy("gelu_other_factor", lambda x, y: 0.5 * y * (1.0 + torch.erf(x / sqrt(2))), shapes=PAIR),
    decoy("normal_distribution", lambda x: 0.5 * (1.0 + torch.erf(x / sqrt(2)))),
    decoy("gelu_tanh_wrong_cube", lambda x: 0.5 * x * (1.0 + torch.tanh(sqrt(2 / pi) * (x + 0.05 * x**3)))),
    decoy("gelu_tanh_square", lambda x: 0.5 * x * (1.0 + torch.tanh(sqrt(2 / pi) * (x + 0.044715 * x**2)))),
    decoy("gate", lambda x, y: x * torch.sigmoid(y), shapes=PAIR),
    decoy("hardswish_wrong_cap", lambda x: x * torch.clamp(x + 3.0, 0.0, 5.0) / 6.0),
    decoy("mish_of_relu", lambda x: x * torch.tanh(F.relu(x))),
    decoy("elu_plus_one", lambda x: torch.where(x > 0, x + 1.0, torch.exp(x))),
    decoy("where_other_value", lambda x, y: torch.where(y > 0, x, 0.1 * x), shapes=PAIR),
    decoy("soft_max_mixed_axes", normalised_sum),
    decoy("soft_max_off_by_one", off_by_one_softmax),
    decoy("log_sum_exp", lambda x: torch.log(torch.exp(x).sum(-1, keepdim=True))),
)

NORMS: tuple[Form, ...] = (
    decoy("standardised_over_batch", lambda x: standardised(x, 0)),
    decoy("standardised_over_sequence", lambda x, w, b: standardised(x, 1) * w + b, VECTOR, VECTOR),
    decoy("standardised_over_all", lambda x: (x - x.mean()) / torch.sqrt((x - x.mean()).pow(2).mean() + EPS)),
    decoy("z_score", lambda x: (x - mean(x, 0)) / (x.std(0, keepdim=True) + EPS)),
    decoy(
        "unbiased", lambda x, w, b: (x - mean(x)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5) * w + b, VECTOR, VECTOR
    ),
    decoy("epsilon_outside", lambda x, w, b: w * (x - mean(x)) / (torch.sqrt(spread(x)) + 1e-2) + b, VECTOR, VECTOR),
    decoy(
        "annotated_transformer",
        lambda x, w, b: w * (x - mean(x)) / (x.std(-1, keepdim=True) + 1e-6) + b,
        VECTOR,
        VECTOR,
    ),
    decoy("other_mean", lambda x, y: (x - mean(y)) / torch.sqrt(spread(x) + EPS), shapes=PAIR),
    decoy("other_spread", lambda x, y: (x - mean(x)) / torch.sqrt(spread(y) + EPS), shapes=PAIR),
    decoy("two_axes_mixed", lambda x: (x - mean(x, (1, 2))) / torch.sqrt(spread(x, -1) + EPS)),
    decoy("rms_over_sequence", lambda x, w: x * torch.rsqrt(mean(x.pow(2), 1) + EPS) * w, VECTOR),
    decoy("rms_over_batch", lambda x: x * torch.rsqrt(mean(x.pow(2), 0) + EPS)),
    decoy("rms_epsilon_outside", lambda x, w: w * x / (torch.sqrt(mean(x.pow(2))) + 1e-2), VECTOR),
    decoy("rms_of_another", lambda x, y: y * torch.rsqrt(mean(x.pow(2)) + EPS), shapes=PAIR),
    decoy("rms_of_cubes", lambda x: x * torch.rsqrt(mean(x.abs().pow(3)) + EPS)),
    decoy("weight_per_token", lambda x, w: mean(x) * w, VECTOR),
    decoy("l1_norm", lambda x: x / x.abs().sum(-1, keepdim=True)),
    decoy("l2_of_another", lambda x, y: y / x.norm(dim=-1, keepdim=True), shapes=PAIR),
)

STATISTICS: tuple[Form, ...] = (
    decoy("mse_loss", F.mse_loss, shapes=PAIR),
    decoy("mse_per_token", lambda x, y: mean((x - y).pow(2)), shapes=PAIR),
    decoy("rmse", lambda x, y: torch.sqrt(mean((x - y).pow(2)) + EPS), shapes=PAIR),
    decoy("variance", spread),
    decoy("variance_function", lambda x: x.var(-1, unbiased=False, keepdim=True)),
    decoy("relative_error", lambda x, y: (x - y) / torch.sqrt(mean(y.pow(2)) + EPS), shapes=PAIR),
    decoy(
        "correlation", lambda x, y: mean((x - mean(x)) * (y - mean(y))) / torch.sqrt(spread(x) * spread(y)), shapes=PAIR
    ),
    decoy("cosine", lambda x, y: (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1) + EPS), shapes=PAIR),
    decoy("image_contrast", lambda x: (x - mean(x, (2, 3))) / (x.amax((2, 3), keepdim=True) + EPS), shapes=(IMAGE,)),
)
