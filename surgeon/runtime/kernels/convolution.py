"""Conv, ConvTranspose and ONNX Runtime's FusedConv as numpy formulas: im2col (windows as columns) and matmul.

Padding consists of ordinary zeros: times an infinite weight they are NaN, as in ONNX Runtime's kernels.
Source: the texts of the operators in onnx.defs, and FusedConv's schema in ONNX Runtime 1.31.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array
from surgeon.runtime.kernels.rnn_activations import activation as named
from surgeon.runtime.kernels.sliding_windows import WindowAxis, split_padding, taps, windows

_COLUMNS = 1 << 21
"""Elements of columns in memory at once: 16 MiB in float64."""


def conv(
    x: Array, weight: Array, bias: Array | None = None, *, group: int = 1, kernel_shape: Any = None, **placing: Any
) -> Array:
    """Conv.  x: [N, C, ...].  weight: [M, C/group, ...].  bias: [M].  placing: arguments of `windows`.

    Returns [N, M, ...] in x's dtype.  Raises ValueError for shapes that do not fit.
    """
    if x.ndim < 3 or weight.ndim != x.ndim or x.shape[1] != weight.shape[1] * group or weight.shape[0] % group:
        raise ValueError(f"weights of shape {weight.shape} in {group} groups do not fit an input of shape {x.shape}")
    axes = windows(x.shape[2:], weight.shape[2:], **placing)
    made = np.empty((len(x), len(weight), *(axis.count for axis in axes)), dtype=np.result_type(x, weight))
    if made.size:
        _by_columns(_padded(x, axes), weight, axes, group=group, made=made)
    return _with_bias(made, bias)


def _with_bias(made: Array, bias: Array | None) -> Array:
    return made if bias is None else made + bias.reshape(-1, *(1 for _ in made.shape[2:]))


def _padded(x: Array, axes: Sequence[WindowAxis]) -> Array:
    """Pad x with zeros, or cut it if padding is negative, so that the last window ends with it."""
    heads, tails = [axis.pad_begin for axis in axes], [axis.behind for axis in axes]
    cut = tuple(
        slice(max(0, -head), size + min(0, tail)) for head, tail, size in zip(heads, tails, x.shape[2:], strict=True)
    )
    x = x[(slice(None), slice(None), *cut)]
    around = [(max(0, head), max(0, tail)) for head, tail in zip(heads, tails, strict=True)]
    return np.pad(x, [(0, 0), (0, 0), *around]) if any(map(any, around)) else x


def _by_columns(padded: Array, weight: Array, axes: Sequence[WindowAxis], group: int, made: Array) -> None:
    """Compute a convolution as matrix products: weights [M/group, C/group·k] times columns [C/group·k, windows]."""
    spatial = tuple(range(2, padded.ndim))
    seen: Array = np.lib.stride_tricks.sliding_window_view(padded, [axis.extent for axis in axes], axis=spatial)
    steps = [slice(None, None, axis.stride) for axis in axes] + [slice(None, None, axis.dilation) for axis in axes]
    seen = seen[(slice(None), slice(None), *steps)]
    rank = len(axes)
    seen = np.moveaxis(seen, range(2 + rank, 2 + 2 * rank), range(2, 2 + rank))  # [N, C, *kernel, *windows]
    matrices = weight.reshape(group, len(weight) // group, -1)
    for images, rows in _parts(seen.shape, rank):
        part = seen[(images, ..., rows, *(slice(None) for _ in axes[1:]))]
        columns = part.reshape(len(part), group, matrices.shape[2], -1)
        result = np.matmul(matrices, columns)
        made[images, :, rows] = result.reshape(len(part), len(weight), *part.shape[2 + rank :])


def _parts(shape: Sequence[int], rank: int) -> Iterator[tuple[slice, slice]]:
    """Yield the images and rows of windows [N, C, *kernel, *windows] that become columns at once."""
    count, rows = shape[0], shape[2 + rank]
    in_row = max(1, math.prod(shape[1:]) // rows)
    some_rows = min(rows, max(1, _COLUMNS // in_row))
    some_images = max(1, _COLUMNS // (in_row * rows)) if some_rows == rows else 1
    for image in range(0, count, some_images):
        for row in range(0, rows, some_rows):
            yield slice(image, image + some_images), slice(row, row + some_rows)


def conv_transpose(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    group: int = 1,
    auto_pad: str = "NOTSET",
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    kernel_shape: Any = None,
) -> Array:
    """ConvTranspose.  x: [N, C, ...].  weight: [C, M/group, ...].  bias: [M].

    Returns [N, M, ...] in x's dtype.  Raises ValueError for shapes that do not fit.
    """
    if x.ndim < 3 or weight.ndim != x.ndim or x.shape[1] != len(weight) or len(weight) % group:
        raise ValueError(f"weights of shape {weight.shape} in {group} groups do not fit an input of shape {x.shape}")
    rank = x.ndim - 2
    ones, zeros = [1] * rank, [0] * rank
    rules = list(zip(x.shape[2:], weight.shape[2:], strides or ones, dilations or ones, strict=True))
    pads, more = pads or zeros * 2, output_padding or zeros
    wanted = None if not output_shape else list(output_shape)[-rank:]
    axes = []
    for place, rule in enumerate(rules):
        given = (pads[place], pads[rank + place])
        axes.append(_spread(*rule, given, more[place], wanted[place] if wanted else None, auto_pad))
    return _with_bias(_scattered(x, weight, axes, group), bias)


def _spread(
    count: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], more: int, wanted: int | None, auto: str
) -> WindowAxis:
    """Return the windows to which `count` inputs contribute, along an axis of the output."""
    whole = stride * (count - 1) + more + (kernel - 1) * dilation + 1
    if wanted is None and auto.startswith("SAME"):
        wanted = min(whole, count * stride)  # as in ONNX Runtime
    if auto == "VALID":
        pads = (0, 0)
    size = whole - sum(pads) if wanted is None else wanted
    if wanted is not None:
        pads = split_padding(max(0, whole - wanted), auto)
    if size < 0:
        raise ValueError(f"padding {pads} removes all {whole} elements")
    begin, end = pads
    return WindowAxis(size, count, kernel, stride=stride, dilation=dilation, pad_begin=begin, pad_end=end)


def _scattered(x: Array, weight: Array, axes: Sequence[WindowAxis], group: int) -> Array:
    """Add the contribution of each input to its window.  x: [N, C, ...].  weight: [C, M/group, ...]."""
    channels, filters = len(weight), weight.shape[1]
    kernel = weight.shape[2:]
    matrices = np.swapaxes(weight.reshape(group, channels // group, -1), 1, 2)
    made = np.zeros((len(x), group, filters, *(axis.size for axis in axes)), dtype=np.result_type(x, weight))
    for image, total in zip(x, made, strict=True):
        given = np.matmul(matrices, image.reshape(group, channels // group, -1))
        given = given.reshape(group, filters, *kernel, *x.shape[2:])
        for tap, inputs, places in taps(axes):
            total[(..., *places)] += given[(slice(None), slice(None), *tap, *inputs)]
    return made.reshape(len(x), -1, *made.shape[3:])


def fused_conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    more: Array | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    **settings: Any,
) -> Array:
    """`com.microsoft` FusedConv: an activation of Conv plus `more`, which has the output's shape.

    Raises ValueError for an activation that ONNX Runtime does not support here.
    """
    made = conv(x, weight, bias, **settings)
    made = made if more is None else made + more
    if activation.lower() == "clip":
        low, high = activation_params
        return np.clip(made, low, high)
    return named(activation or "Identity").bound(activation_params)(made)


CONVOLUTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("", "Conv"): conv,
    ("", "ConvTranspose"): conv_transpose,
    ("com.microsoft", "FusedConv"): fused_conv,
}
