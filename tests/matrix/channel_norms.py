"""Forms of the norms over groups of channels and over images, and of the L2 norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.matrix.forms import HIDDEN, IMAGE, SIGNAL, Form, called, hand, native

F = nn.functional
EPS, GROUPS = 1e-5, 4
CHANNELS = (HIDDEN, 1, 1)
"""The shape of a weight per channel."""
AREA = (2, 3)


def grouped(x: Tensor) -> Tensor:
    """Each group of channels to mean 0 and variance 1, by a reshape there and back."""
    y = x.reshape(x.shape[0], GROUPS, -1)
    y = (y - y.mean(-1, keepdim=True)) / torch.sqrt(y.var(-1, unbiased=False, keepdim=True) + EPS)
    return y.reshape(x.shape)


def grouped_in_five(x: Tensor) -> Tensor:
    """The same with the image kept as axes of its own."""
    n, c, h, w = x.shape
    y = x.view(n, GROUPS, c // GROUPS, h, w)
    d = y - y.mean((2, 3, 4), keepdim=True)
    return (d * torch.rsqrt(d.pow(2).mean((2, 3, 4), keepdim=True) + EPS)).view(n, c, h, w)


def by_instance_norm(x: Tensor) -> Tensor:
    """Groups as the channels of an instance norm."""
    return F.instance_norm(x.reshape(x.shape[0], GROUPS, -1), eps=EPS).reshape(x.shape)


def imaged(x: Tensor, axes: int | tuple[int, ...] = AREA) -> Tensor:
    """Each channel of each image to mean 0 and variance 1."""
    d = x - x.mean(axes, keepdim=True)
    return d / torch.sqrt(d.pow(2).mean(axes, keepdim=True) + EPS)


def imaged_by_var(x: Tensor) -> Tensor:
    var = x.var(AREA, unbiased=False, keepdim=True)
    return (x - x.mean(AREA, keepdim=True)) * torch.rsqrt(var + EPS)


GROUP_NORMS: tuple[Form, ...] = (
    native("group_norm", "nn", lambda: nn.GroupNorm(GROUPS, HIDDEN), IMAGE),
    native("group_norm", "nn_no_affine", lambda: nn.GroupNorm(GROUPS, HIDDEN, affine=False), IMAGE),
    native("group_norm", "nn_one_group", lambda: nn.GroupNorm(1, HIDDEN), IMAGE),
    native("group_norm", "nn_signal", lambda: nn.GroupNorm(GROUPS, HIDDEN), SIGNAL),
    called("group_norm", "function", lambda x: F.group_norm(x, GROUPS), IMAGE),
    Form(
        "group_norm.nn_silu",
        lambda: nn.Sequential(nn.GroupNorm(GROUPS, HIDDEN), nn.SiLU()),
        (IMAGE,),
        {"group_norm": 1, "silu": 1},
    ),
    hand("group_norm", "reshape_var", lambda x, w, b: grouped(x) * w + b, CHANNELS, CHANNELS, shapes=(IMAGE,)),
    hand("group_norm", "five_axes", lambda x, w, b: grouped_in_five(x) * w + b, CHANNELS, CHANNELS, shapes=(IMAGE,)),
    hand(
        "group_norm", "instance_norm", lambda x, w, b: by_instance_norm(x) * w + b, CHANNELS, CHANNELS, shapes=(IMAGE,)
    ),
    hand("group_norm", "reshape_var_no_affine", grouped, shapes=(IMAGE,)),
)

INSTANCE_NORMS: tuple[Form, ...] = (
    native("instance_norm", "nn", lambda: nn.InstanceNorm2d(HIDDEN), IMAGE),
    native("instance_norm", "nn_affine", lambda: nn.InstanceNorm2d(HIDDEN, affine=True), IMAGE),
    native("instance_norm", "nn_signal", lambda: nn.InstanceNorm1d(HIDDEN, affine=True), SIGNAL),
    hand("instance_norm", "by_hand", lambda x, w, b: imaged(x) * w + b, CHANNELS, CHANNELS, shapes=(IMAGE,)),
    hand("instance_norm", "by_var", lambda x, w, b: w * imaged_by_var(x) + b, CHANNELS, CHANNELS, shapes=(IMAGE,)),
    hand("instance_norm", "no_affine", imaged, shapes=(IMAGE,)),
)


def normalised(x: Tensor, axis: int = -1) -> Tensor:
    return x / x.norm(p=2, dim=axis, keepdim=True)


L2_NORMS: tuple[Form, ...] = (
    called("l2_norm", "normalize", lambda x: F.normalize(x, dim=-1)),
    called("l2_norm", "normalize_axis_1", F.normalize, IMAGE),
    hand("l2_norm", "norm", normalised),
    hand("l2_norm", "norm_axis_1", lambda x: normalised(x, 1), shapes=(IMAGE,)),
    hand("l2_norm", "linalg", lambda x: x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)),
    hand("l2_norm", "clip", lambda x: x / x.pow(2).sum(-1, keepdim=True).pow(0.5)),
    hand("l2_norm", "sqrt_of_sum", lambda x: x / torch.sqrt((x * x).sum(-1, keepdim=True))),
    hand("l2_norm", "rsqrt_of_sum", lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True))),
    hand("l2_norm", "clamped", lambda x: x / x.norm(dim=-1, keepdim=True).clamp_min(1e-12)),
)
