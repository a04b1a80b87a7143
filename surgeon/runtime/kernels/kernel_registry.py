"""Operators as numpy formulas, if onnx's ReferenceEvaluator lacks them, is slow, or has quirks.EVALUATOR_PRECISION.

A formula takes the node's inputs (None for an omitted one) and its attributes by name.  It returns an array or a tuple.
It computes in the dtype of its inputs, so in float64 it is a reference.  If a formula has these parameters, `opset` is
the version of the node's domain, and `outputs` the number of outputs of the node.

Sources: the text of the operator in onnx.defs (default domain) or in ONNX Runtime 1.31's schema (`com.microsoft`, and
SimplifiedLayerNormalization, which only ORT has).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from surgeon.runtime.kernels.aten import ATEN_ELEMENTWISE, hardswish, mish, sigmoid
from surgeon.runtime.kernels.convolution import CONVOLUTIONS
from surgeon.runtime.kernels.erf import Array, erf
from surgeon.runtime.kernels.group_query_attention import GROUPED_QUERIES
from surgeon.runtime.kernels.onnx_attention import SHARED_HEADS
from surgeon.runtime.kernels.ort_attention import ATTENTIONS
from surgeon.runtime.kernels.pooling import POOLINGS
from surgeon.runtime.kernels.recurrent import RECURRENT
from surgeon.runtime.kernels.tensorrt_plugins import PLUGIN_NORMS, tensorrt_disentangled_attention
from surgeon.runtime.kernels.vision.deformable import DEFORMABLE
from surgeon.runtime.kernels.vision.grid_sample import grid_sample
from surgeon.runtime.kernels.vision.non_max_suppression import efficient_nms
from surgeon.runtime.kernels.vision.resize import RESIZING
from surgeon.runtime.kernels.vision.roi_align import mmcv_roi_align, tensorrt_roi_align, torchvision_roi_align

# Defaults of attributes are float32, as the attributes are.
_EPSILON, _EPSILON_OF_SKIP = float(np.float32(1e-5)), float(np.float32(1e-12))
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def _gelu_erf(x: Array) -> Array:
    return 0.5 * x * (1 + erf(x / math.sqrt(2.0)))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))


def _gelu(x: Array, *, approximate: str = "none") -> Array:
    # onnx's function body has sqrt(2/pi) as float32 for every input dtype.
    return _gelu_tanh(x) if approximate == "tanh" else _gelu_erf(x)


def _aten_gelu(x: Array, *, approximate: str) -> Array:
    return _gelu(x, approximate=approximate).astype(x.dtype)


def _bias_gelu(x: Array, bias: Array) -> Array:
    return _gelu_erf(x + bias)


def _fast_gelu(x: Array, bias: Array | None = None) -> Array:
    return _gelu_tanh(x if bias is None else x + bias)


def _quick_gelu(x: Array, *, alpha: float = float(np.float32(1.702))) -> Array:
    return x * sigmoid(alpha * x)


def _swish(x: Array, *, alpha: float = 1.0) -> Array:
    return x * sigmoid(alpha * x)


def _softplus(x: Array) -> Array:
    # onnx, and ONNX Runtime in float64, compute exp(x), which overflows from 709 on.
    return np.logaddexp(x, np.zeros((), x.dtype))


def _bias_split_gelu(x: Array, bias: Array) -> Array:
    left, right = np.split(x + bias, 2, axis=-1)
    return left * _gelu_erf(right)


def _bias_add(x: Array, bias: Array, skip: Array) -> Array:
    return x + bias + skip


def _shifted(x: Array, axis: int, opset: int) -> tuple[Array, tuple[int, ...]]:
    """Return x minus its maxima, with the axes that softmax sums as rows, and the shape of the result.

    Before opset 13, softmax treats the input as a matrix: all axes from `axis` on become one.
    """
    shape = x.shape
    if opset < 13:
        axis = axis % max(x.ndim, 1)
        x = x.reshape(math.prod(shape[:axis]), math.prod(shape[axis:]))
        axis = -1
    x = np.moveaxis(x, axis, -1)
    return x - x.max(axis=-1, keepdims=True), shape


def _softmax_from(x: Array, axis: int | None, opset: int, *, logarithm: bool) -> Array:
    if not x.size:
        return x
    axis = (1 if opset < 13 else -1) if axis is None else axis
    moved, shape = _shifted(x, axis, opset)
    total = np.exp(moved).sum(axis=-1, keepdims=True)
    result = moved - np.log(total) if logarithm else np.exp(moved) / total
    return (result if opset < 13 else np.moveaxis(result, -1, axis)).reshape(shape)


def _softmax(x: Array, *, axis: int | None = None, opset: int = 13) -> Array:
    return _softmax_from(x, axis, opset, logarithm=False)


def _log_softmax(x: Array, *, axis: int | None = None, opset: int = 13) -> Array:
    # onnx computes the logarithm of softmax, which is -inf if softmax underflows.
    return _softmax_from(x, axis, opset, logarithm=True)


def _reduce_log_sum_exp(x: Array, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Array:
    # onnx returns NaN for rows of only infinities; the function body that ONNX Runtime uses from opset 28 on overflows.
    chosen = None if axes is None or not len(axes) else tuple(int(axis) for axis in axes)
    if chosen is None and noop_with_empty_axes:
        return x
    most = x.max(axis=chosen, keepdims=True, initial=-np.inf)
    base = np.where(np.isfinite(most), most, 0)
    made = np.log(np.exp(x - base).sum(axis=chosen, keepdims=True)) + base
    return made if keepdims else made.squeeze(chosen)


def _normalised(x: Array, axes: tuple[int, ...], epsilon: float, *, centred: bool = True) -> tuple[Array, Array, Array]:
    """Return (x - mean) / sqrt(variance + epsilon), the mean, and one over that root; if not centred, the mean is 0."""
    mean = x.mean(axis=axes, keepdims=True) if centred else np.zeros_like(x[..., :1])
    moved = x - mean if centred else x
    inverse = 1 / np.sqrt((moved * moved).mean(axis=axes, keepdims=True) + epsilon)
    return moved * inverse, mean, inverse


def _from_axis(x: Array, axis: int) -> tuple[int, ...]:
    return tuple(range(axis % x.ndim, x.ndim))


def _layer_norm(
    x: Array,
    scale: Array,
    bias: Array | None = None,
    *,
    axis: int = -1,
    epsilon: float = _EPSILON,
    stash_type: int = 1,
) -> tuple[Array, ...]:
    # onnx rejects any stash_type but float32; here the statistics have the input's dtype.
    y, mean, inverse = _normalised(x, _from_axis(x, axis), epsilon)
    return y * scale + (0 if bias is None else bias), mean, inverse


def _rms_norm(x: Array, scale: Array, *, axis: int = -1, epsilon: float = _EPSILON, stash_type: int = 1) -> Array:
    return _normalised(x, _from_axis(x, axis), epsilon, centred=False)[0] * scale


def _simplified_layer_norm(
    x: Array, scale: Array, *, axis: int = -1, epsilon: float = _EPSILON, stash_type: int = 1
) -> tuple[Array, ...]:
    y, _, inverse = _normalised(x, _from_axis(x, axis), epsilon, centred=False)
    return y * scale, inverse


def _skip_layer_norm(
    x: Array,
    skip: Array,
    gamma: Array,
    beta: Array | None = None,
    bias: Array | None = None,
    *,
    epsilon: float = _EPSILON_OF_SKIP,
) -> tuple[Array, ...]:
    total = x + skip + (0 if bias is None else bias)
    y, mean, inverse = _normalised(total, (-1,), epsilon)
    return y * gamma + (0 if beta is None else beta), mean, inverse, total


def _embed_layer_norm(
    ids: Array,
    types: Array | None,
    words: Array,
    places: Array,
    kinds: Array | None,
    gamma: Array,
    beta: Array,
    mask: Array | None = None,
    at: Array | None = None,
    *,
    epsilon: float = _EPSILON_OF_SKIP,
    **_: Any,
) -> tuple[Array, ...]:
    counts = np.zeros(ids.shape[:1], np.int32) if mask is None else (mask == 1).sum(axis=1, dtype=np.int32)
    total = words[ids] + (places[: ids.shape[1]] if at is None else places[at])
    total = total if kinds is None else total + kinds[types]
    return _normalised(total, (-1,), epsilon)[0] * gamma + beta, counts, total


def _skip_simplified_layer_norm(
    x: Array, skip: Array, gamma: Array, bias: Array | None = None, *, epsilon: float = _EPSILON_OF_SKIP
) -> tuple[Array, ...]:
    total = x + skip + (0 if bias is None else bias)
    y, mean, inverse = _normalised(total, (-1,), epsilon, centred=False)
    return y * gamma, mean, inverse, total


def _mean_variance_norm(x: Array, *, axes: tuple[int, ...] = (0, 2, 3)) -> Array:
    # onnx's body has float32 constants, which it cannot add to other dtypes.
    moved = x - x.mean(axis=tuple(axes), keepdims=True)
    return moved / (np.sqrt((moved * moved).mean(axis=tuple(axes), keepdims=True)) + float(np.float32(1e-9)))


def _require_groups(x: Array, scale: Array, bias: Array, groups: int, *, by_group: bool = False) -> None:
    """Raise ValueError for shapes that do not fit a group normalisation of [N, C, ...], which numpy would broadcast."""
    if groups < 1 or x.shape[1] % groups:
        raise ValueError(f"{x.shape[1]} channels cannot be divided into {groups} groups")
    wanted = (groups,) if by_group else (x.shape[1],)
    if scale.shape != wanted or bias.shape != wanted:
        raise ValueError(f"scale and bias have shapes {scale.shape} and {bias.shape}, expected {wanted}")


def _in_group(x: Array, groups: int) -> int:
    """The number of elements in a group of [N, C, ...]; a reshape to -1 fails without elements."""
    return int(math.prod(x.shape[1:])) // groups


def _group_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    *,
    num_groups: int,
    epsilon: float = _EPSILON,
    stash_type: int = 1,
    opset: int = 21,
) -> Array:
    # onnx's body computes the statistics in float32; before opset 21 scale and bias are by group.
    _require_groups(x, scale, bias, num_groups, by_group=opset < 21)
    y = _normalised(x.reshape(x.shape[0], num_groups, _in_group(x, num_groups)), (-1,), epsilon)[0]
    by_channel = (-1, *(1 for _ in x.shape[2:]))
    if opset < 21:
        return (y * scale[:, None] + bias[:, None]).reshape(x.shape)
    return y.reshape(x.shape) * scale.reshape(by_channel) + bias.reshape(by_channel)


def _group_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    *,
    groups: int,
    activation: int,
    channels_last: int = 1,
    epsilon: float = _EPSILON,
) -> Array:
    first = np.moveaxis(x, -1, 1) if channels_last else x
    _require_groups(first, gamma, beta, groups)
    grouped = first.reshape(first.shape[0], groups, _in_group(first, groups))
    y = _normalised(grouped, (-1,), epsilon)[0].reshape(first.shape)
    per_channel = (-1, *(1 for _ in first.shape[2:]))
    y = y * gamma.reshape(per_channel).astype(x.dtype) + beta.reshape(per_channel).astype(x.dtype)
    y = y * sigmoid(y) if activation == 1 else y
    return np.moveaxis(y, 1, -1) if channels_last else y


def _skip_group_norm(
    x: Array, gamma: Array, beta: Array, skip: Array, bias: Array | None = None, **settings: Any
) -> tuple[Array, ...]:
    if skip.ndim == 2:  # (N, C) represents (N, 1, 1, C)
        skip = skip[:, None, None, :] if settings.get("channels_last", 1) else skip[:, :, None, None]
    total = x + skip
    if bias is not None:
        total = total + (bias if settings.get("channels_last", 1) else bias[:, None, None])
    return _group_norm(total, gamma, beta, **settings), total


def _fused_matmul(
    a: Array,
    b: Array,
    *,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803 - the operator's own names
    transB: int = 0,  # noqa: N803
    transBatchA: int = 0,  # noqa: N803
    transBatchB: int = 0,  # noqa: N803
) -> Array:
    def turned(x: Array, transposed: int, batched: int) -> Array:
        x = np.moveaxis(x, 0, -2) if batched and x.ndim > 2 else x
        return np.swapaxes(x, -1, -2) if transposed and x.ndim > 1 else x

    return alpha * np.matmul(turned(a, transA, transBatchA), turned(b, transB, transBatchB))


def dequantize_linear(
    x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Array:
    """DequantizeLinear of ONNX: (x - zero) * scale in the dtype of the scale."""
    # onnx subtracts and multiplies in float32.
    if (scale.ndim and scale.size > 1) or block_size:
        axis = axis % x.ndim
        scale, zero = (_along(item, x, axis, block_size) for item in (scale, zero))
    moved = x.astype(scale.dtype) if zero is None else x.astype(scale.dtype) - zero.astype(scale.dtype)
    return (moved * scale).reshape(x.shape)


def _along(item: Array | None, x: Array, axis: int, block_size: int) -> Array | None:
    """Broadcast scales or zero points along one axis of x; with a block size, each applies to that many elements."""
    if item is None:
        return None
    if block_size:
        repeated = np.repeat(item, block_size, axis=axis)
        return np.take(repeated, range(x.shape[axis]), axis=axis)
    return item.reshape([-1 if place == axis else 1 for place in range(x.ndim)])


def _batch_norm(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    *,
    epsilon: float = _EPSILON,
    momentum: float = float(np.float32(0.9)),
    training_mode: int = 0,
    **_: Any,
) -> Array:
    # onnx treats opsets before 14 as training.
    shape = (1, -1) + (1,) * (x.ndim - 2)
    used_mean, used_variance = mean, variance
    if training_mode:
        axes = (0, *range(2, x.ndim))
        used_mean, used_variance = x.mean(axis=axes), x.var(axis=axes)
    root = np.sqrt(used_variance + epsilon)
    result = (x - used_mean.reshape(shape)) / root.reshape(shape) * scale.reshape(shape) + bias.reshape(shape)
    if not training_mode:
        return result
    kept = (old * momentum + new * (1 - momentum) for old, new in ((mean, used_mean), (variance, used_variance)))
    return (result, *kept)


def _optional(x: Any = None, **_: Any) -> Any:
    # onnx puts the value into a list, but its OptionalGetElement does not take it out.
    return x


REFERENCE_KERNELS: dict[tuple[str, str], Callable[..., Any]] = {
    **dict.fromkeys((("", "GridSample"), ("com.microsoft", "GridSample")), grid_sample),
    ("", "Optional"): _optional,
    ("", "Erf"): erf,
    ("", "Gelu"): _gelu,
    ("", "HardSwish"): hardswish,
    ("", "Mish"): mish,
    ("", "Swish"): _swish,
    ("", "Softplus"): _softplus,
    ("", "Softmax"): _softmax,
    ("", "LogSoftmax"): _log_softmax,
    ("", "ReduceLogSumExp"): _reduce_log_sum_exp,
    ("", "BatchNormalization"): _batch_norm,
    ("", "LayerNormalization"): _layer_norm,
    ("", "RMSNormalization"): _rms_norm,
    ("", "GroupNormalization"): _group_normalization,
    ("", "MeanVarianceNormalization"): _mean_variance_norm,
    ("", "SimplifiedLayerNormalization"): _simplified_layer_norm,
    ("", "DequantizeLinear"): dequantize_linear,
    ("com.microsoft", "Gelu"): _gelu_erf,
    ("com.microsoft", "BiasGelu"): _bias_gelu,
    ("com.microsoft", "FastGelu"): _fast_gelu,
    ("com.microsoft", "QuickGelu"): _quick_gelu,
    ("com.microsoft", "BiasSplitGelu"): _bias_split_gelu,
    ("com.microsoft", "BiasAdd"): _bias_add,
    ("com.microsoft", "EmbedLayerNormalization"): _embed_layer_norm,
    ("com.microsoft", "SkipLayerNormalization"): _skip_layer_norm,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): _skip_simplified_layer_norm,
    ("com.microsoft", "GroupNorm"): _group_norm,
    ("com.microsoft", "SkipGroupNorm"): _skip_group_norm,
    ("aten", "gelu"): _aten_gelu,
    **{("aten", name): function for name, function in ATEN_ELEMENTWISE.items()},
    ("trt.plugins", "EfficientNMS_TRT"): efficient_nms,
    ("trt.plugins", "DisentangledAttention_TRT"): tensorrt_disentangled_attention,
    ("torchvision", "roi_align"): torchvision_roi_align,
    **dict.fromkeys(((domain, "MMCVRoiAlign") for domain in ("mmdeploy", "mmcv")), mmcv_roi_align),
    ("trt.plugins", "ROIAlign_TRT"): tensorrt_roi_align,
    ("com.microsoft", "FusedMatMul"): _fused_matmul,
    **ATTENTIONS,
    **CONVOLUTIONS,
    **DEFORMABLE,
    **GROUPED_QUERIES,
    **PLUGIN_NORMS,
    **POOLINGS,
    **RECURRENT,
    **RESIZING,
    **SHARED_HEADS,
}
"""Formulas by domain and name of the operator."""
PLUGIN_KERNELS = [key for key in REFERENCE_KERNELS if key[0] == "trt.plugins"]
"""The formulas of TensorRT's plugins, for which ONNX Runtime never has a CPU kernel."""
