"""Forms of the norms over last axes: LayerNorm, RMSNorm, and both of a sum with a skip connection."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.matrix.forms import HIDDEN, IMAGE, SEQUENCE, TOKENS, Form, called, hand, native

F = nn.functional
EPS = 1e-5
VECTOR, MATRIX, CHANNELS = (HIDDEN,), (SEQUENCE, HIDDEN), (HIDDEN, 1, 1)
PAIR = (TOKENS, TOKENS)


def mean(x: Tensor, axis: int | tuple[int, ...] = -1) -> Tensor:
    return x.mean(axis, keepdim=True)


def centred(x: Tensor, axis: int | tuple[int, ...] = -1) -> Tensor:
    """(x − mean) / √(mean of squares + ε), the difference once, the square as a power."""
    d = x - mean(x, axis)
    return d / torch.sqrt(mean(d.pow(2), axis) + EPS)


def sub_twice(x: Tensor) -> Tensor:
    """The difference is computed in both places."""
    return (x - mean(x)) / torch.sqrt(mean((x - mean(x)) ** 2) + EPS)


def product(x: Tensor) -> Tensor:
    """The square as a product."""
    d = x - mean(x)
    return d / torch.sqrt(mean(d * d) + EPS)


def by_rsqrt(x: Tensor) -> Tensor:
    d = x - mean(x)
    return d * torch.rsqrt(mean(d.square()) + EPS)


def by_power(x: Tensor) -> Tensor:
    d = x - mean(x)
    return d * torch.pow(mean(d.pow(2)) + EPS, -0.5)


def by_half_power(x: Tensor) -> Tensor:
    d = x - mean(x)
    return d / (mean(d.pow(2)) + EPS) ** 0.5


def by_reciprocal(x: Tensor) -> Tensor:
    d = x - mean(x)
    return d * (1.0 / torch.sqrt(mean(d.pow(2)) + EPS))


def by_var(x: Tensor) -> Tensor:
    return (x - mean(x)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + EPS)


def by_var_mean(x: Tensor) -> Tensor:
    var, centre = torch.var_mean(x, -1, unbiased=False, keepdim=True)
    return (x - centre) * torch.rsqrt(var + EPS)


def upcast(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Norm, weight and bias in float32, then back."""
    return lambda x, w, b: (function(x.float()) * w.float() + b.float()).to(x.dtype)


def permuted(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Channels last for the norm, and back, as ConvNeXt has it."""
    return lambda x, w, b: (function(x.permute(0, 2, 3, 1)) * w + b).permute(0, 3, 1, 2)


def affine(name: str, function: Callable[[Tensor], Tensor]) -> Form:
    """A LayerNorm by hand with weight and bias."""
    return hand("layer_norm", name, lambda x, w, b: function(x) * w + b, VECTOR, VECTOR)


LAYER_NORMS: tuple[Form, ...] = (
    native("layer_norm", "nn", lambda: nn.LayerNorm(HIDDEN)),
    native("layer_norm", "nn_eps_1e-12", lambda: nn.LayerNorm(HIDDEN, eps=1e-12)),
    native("layer_norm", "nn_scale_only", lambda: nn.LayerNorm(HIDDEN, bias=False)),
    native("layer_norm", "nn_no_affine", lambda: nn.LayerNorm(HIDDEN, elementwise_affine=False)),
    native("layer_norm", "nn_two_axes", lambda: nn.LayerNorm((SEQUENCE, HIDDEN))),
    native("layer_norm", "nn_two_axes_no_affine", lambda: nn.LayerNorm((SEQUENCE, HIDDEN), elementwise_affine=False)),
    native("layer_norm", "nn_twice", lambda: nn.Sequential(nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)), sites=2),
    native("layer_norm", "nn_2d", lambda: nn.LayerNorm(HIDDEN), (3, HIDDEN)),
    called("layer_norm", "function", lambda x: F.layer_norm(x, VECTOR)),
    affine("sqrt_div", centred),
    affine("sub_twice", sub_twice),
    affine("product", product),
    affine("rsqrt", by_rsqrt),
    affine("power", by_power),
    affine("half_power", by_half_power),
    affine("reciprocal", by_reciprocal),
    affine("var", by_var),
    affine("var_mean", by_var_mean),
    hand("layer_norm", "weight_first", lambda x, w, b: w * centred(x) + b, VECTOR, VECTOR),
    hand("layer_norm", "scale_only", lambda x, w: centred(x) * w, VECTOR),
    hand("layer_norm", "scale_only_rsqrt", lambda x, w: w * by_rsqrt(x), VECTOR),
    hand("layer_norm", "no_affine", centred),
    hand("layer_norm", "no_affine_var", by_var),
    hand("layer_norm", "two_axes", lambda x, w, b: centred(x, (-2, -1)) * w + b, MATRIX, MATRIX),
    hand("layer_norm", "upcast", upcast(centred), VECTOR, VECTOR),
    hand("layer_norm", "upcast_rsqrt", upcast(by_rsqrt), VECTOR, VECTOR),
    hand("layer_norm", "upcast_norm", lambda x, w, b: centred(x.float()).to(x.dtype) * w + b, VECTOR, VECTOR),
    hand("layer_norm", "upcast_function", lambda x: F.layer_norm(x.float(), VECTOR).to(x.dtype)),
    hand("layer_norm", "channels_first", lambda x, w, b: w * centred(x, 1) + b, CHANNELS, CHANNELS, shapes=(IMAGE,)),
    hand(
        "layer_norm",
        "channels_first_vectors",
        lambda x, w, b: w[:, None, None] * centred(x, 1) + b[:, None, None],
        VECTOR,
        VECTOR,
        shapes=(IMAGE,),
    ),
    hand("layer_norm", "permuted", permuted(centred), VECTOR, VECTOR, shapes=(IMAGE,)),
    hand(
        "layer_norm", "permuted_function", permuted(lambda x: F.layer_norm(x, VECTOR)), VECTOR, VECTOR, shapes=(IMAGE,)
    ),
)


def rms(x: Tensor) -> Tensor:
    """x · rsqrt(mean of squares + ε)."""
    return x * torch.rsqrt(mean(x.pow(2)) + EPS)


def llama(x: Tensor, w: Tensor) -> Tensor:
    """Normalised in float32, cast back, then weighted."""
    return w * rms(x.to(torch.float32)).to(x.dtype)


def gemma(x: Tensor, w: Tensor) -> Tensor:
    """Times 1 + weight, all in float32, then cast back."""
    return (rms(x.float()) * (1.0 + w.float())).type_as(x)


def t5(x: Tensor, w: Tensor) -> Tensor:
    """Only the mean in float32; the cast back is to the weight's dtype."""
    return w * (x * torch.rsqrt(mean(x.to(torch.float32).pow(2)) + EPS)).to(w.dtype)


RMS_NORMS: tuple[Form, ...] = (
    native("rms_norm", "nn", lambda: nn.RMSNorm(HIDDEN, eps=EPS)),
    native("rms_norm", "nn_default_eps", lambda: nn.RMSNorm(HIDDEN)),
    native("rms_norm", "nn_no_affine", lambda: nn.RMSNorm(HIDDEN, eps=EPS, elementwise_affine=False)),
    native("rms_norm", "nn_two_axes", lambda: nn.RMSNorm((SEQUENCE, HIDDEN), eps=EPS)),
    called("rms_norm", "function", lambda x: F.rms_norm(x, VECTOR, eps=EPS)),
    hand("rms_norm", "llama", llama, VECTOR),
    hand("rms_norm", "gemma", gemma, VECTOR),
    hand("rms_norm", "t5", t5, VECTOR),
    hand("rms_norm", "weight_in_float", lambda x, w: (w.float() * rms(x.float())).to(x.dtype), VECTOR),
    hand("rms_norm", "plain", lambda x, w: w * rms(x), VECTOR),
    hand("rms_norm", "weight_last", lambda x, w: rms(x) * w, VECTOR),
    hand("rms_norm", "one_plus_weight", lambda x, w: rms(x) * (1.0 + w), VECTOR),
    hand("rms_norm", "no_weight", rms),
    hand("rms_norm", "gated", lambda x, y: rms(x) * torch.sigmoid(y), shapes=PAIR),
    hand("rms_norm", "no_weight_upcast", lambda x: rms(x.float()).to(x.dtype)),
    hand("rms_norm", "product", lambda x, w: w * (x * torch.rsqrt(mean(x * x) + EPS)), VECTOR),
    hand("rms_norm", "sqrt_div", lambda x, w: w * (x / torch.sqrt(mean(x.pow(2)) + EPS)), VECTOR),
    hand("rms_norm", "power", lambda x, w: w * (x * (mean(x**2) + EPS).pow(-0.5)), VECTOR),
    hand("rms_norm", "reciprocal", lambda x, w: x * (1.0 / torch.sqrt(mean(x**2) + EPS)) * w, VECTOR),
)

SKIP_NORMS: tuple[Form, ...] = (
    hand(
        "skip_layer_norm", "function", lambda x, s, w, b: F.layer_norm(x + s, VECTOR, w, b), VECTOR, VECTOR, shapes=PAIR
    ),
    hand("skip_layer_norm", "no_beta", lambda x, s, w: F.layer_norm(x + s, VECTOR, w), VECTOR, shapes=PAIR),
    hand("skip_layer_norm", "by_hand", lambda x, s, w, b: centred(s + x) * w + b, VECTOR, VECTOR, shapes=PAIR),
    hand(
        "skip_layer_norm",
        "bias",
        lambda x, s, c, w, b: F.layer_norm((x + c) + s, VECTOR, w, b),
        VECTOR,
        VECTOR,
        VECTOR,
        shapes=PAIR,
    ),
    hand(
        "skip_layer_norm",
        "linear",
        lambda x, s, m, c, w, b: F.layer_norm(F.linear(x, m, c) + s, VECTOR, w, b),
        (HIDDEN, HIDDEN),
        VECTOR,
        VECTOR,
        VECTOR,
        shapes=PAIR,
    ),
    hand(
        "skip_layer_norm",
        "sum_used",
        lambda x, s, w, b: (F.layer_norm(x + s, VECTOR, w, b), x + s),
        VECTOR,
        VECTOR,
        shapes=PAIR,
    ),
    hand("skip_rms_norm", "llama", lambda x, s, w: llama(x + s, w), VECTOR, shapes=PAIR),
    hand("skip_rms_norm", "plain", lambda x, s, w: w * rms(s + x), VECTOR, shapes=PAIR),
    hand("skip_rms_norm", "function", lambda x, s, w: F.rms_norm(x + s, VECTOR, w, EPS), VECTOR, shapes=PAIR),
    hand("skip_rms_norm", "bias", lambda x, s, c, w: w * rms((x + c) + s), VECTOR, VECTOR, shapes=PAIR),
    hand("skip_rms_norm", "sum_used", lambda x, s, w: (w * rms(x + s), x + s), VECTOR, shapes=PAIR),
)
