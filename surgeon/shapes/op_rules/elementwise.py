"""Rules for ops that compute elements, or rows, separately, and keep the shape or broadcast it."""

from collections.abc import Sequence

from surgeon.ops.traits.trait_lookup import ops_with, traits_of
from surgeon.shapes.op_rules.axis_labels import (
    AxisLabels,
    LabelRule,
    axis_of,
    combining,
    per_sample,
    rank,
    shaped,
    unknown,
)
from surgeon.shapes.tensor_types import BOOL, NodeView, PartialType, Rule, TensorType, normalize_axis


def _unary(site: NodeView) -> Sequence[TensorType]:
    return [site.facts(0)]


def _test(site: NodeView) -> Sequence[TensorType]:
    return [TensorType(BOOL, site.shape(0))]


def aligned(view: NodeView) -> AxisLabels:
    """Axes that broadcast, counted from their ends."""
    shapes = {place: view.facts(place).shape for place, name in enumerate(view.inputs) if name}
    labels = {place: range(-len(shape), 0) for place, shape in shapes.items() if shape is not None}
    every = range(-max(map(len, labels.values()), default=0), 0)
    return AxisLabels(labels, every if len(labels) == len(shapes) else None, broadcast=every)


def _broadcasting(site: NodeView) -> Sequence[TensorType | PartialType]:
    dtype = next((found for found in map(site.dtype, range(len(site.inputs))) if found), None)
    if site.node.op == "Pow":
        dtype = site.dtype(0)
    if site.opset < 7:
        return [TensorType(dtype, site.shape(0))]  # before, the second input broadcast to the first, or had its shape
    return shaped(aligned, lambda _: dtype)(site)


def _comparing(site: NodeView) -> Sequence[TensorType | PartialType]:
    return [TensorType(BOOL, site.shape(0))] if site.opset < 7 else shaped(aligned, lambda _: BOOL)(site)


def _cast(site: NodeView) -> Sequence[TensorType]:
    target = site.attribute("to")
    return [TensorType(target if isinstance(target, int) and target else None, site.shape(0))]


def _cast_like(site: NodeView) -> Sequence[TensorType]:
    return [TensorType(site.dtype(1), site.shape(0))]


def _dropout(site: NodeView) -> Sequence[TensorType]:
    dtype, shape = site.facts(0)
    return [TensorType(dtype, shape), TensorType(BOOL if site.opset >= 10 else dtype, shape)]


def _quantize(site: NodeView) -> Sequence[TensorType]:
    dtype = site.dtype(2) if site.has(2) else site.attribute("output_dtype", 0) or 2  # UINT8
    return [TensorType(dtype, site.shape(0))]


def _dequantize(site: NodeView) -> Sequence[TensorType]:
    return [TensorType(site.attribute("output_dtype", 0) or site.dtype(1), site.shape(0))]


def _quantize_dynamically(site: NodeView) -> Sequence[TensorType]:
    return [TensorType(2, site.shape(0)), TensorType(1, ()), TensorType(2, ())]


def _like(site: NodeView) -> Sequence[TensorType]:
    return [TensorType(site.attribute("dtype") or site.dtype(0), site.shape(0))]


def _batch_normalization(site: NodeView) -> Sequence[TensorType]:
    """The running mean and variance follow in training; older opsets have two more outputs of the same shape."""
    statistics = site.facts(3)
    return [site.facts(0), *[statistics] * 4]


def _layer_normalization(site: NodeView) -> Sequence[TensorType]:
    dtype, shape = site.facts(0)
    if shape is None:
        return [TensorType(dtype, None), TensorType(site.attribute("stash_type", 1), None)] * 2
    axis = normalize_axis(site.attribute("axis", -1), len(shape))
    statistics = TensorType(site.attribute("stash_type", 1), (*shape[:axis], *[1] * (len(shape) - axis)))
    return [TensorType(dtype, shape), statistics, statistics]


def _skip_normalization(site: NodeView) -> Sequence[TensorType]:
    """Outputs: normalised, mean, inverse standard deviation, and the sum of input, skip and bias."""
    dtype, shape = site.facts(0)
    statistics = TensorType(1, None if shape is None else (*shape[:-1], 1))
    return [TensorType(dtype, shape), statistics, statistics, TensorType(dtype, shape)]


_BY_FACTS: dict[str, Rule] = {
    **dict.fromkeys(ops_with("broadcasts"), _broadcasting),
    **dict.fromkeys(ops_with("broadcasts") & ops_with("returns_bool"), _comparing),
    **dict.fromkeys(ops_with("returns_bool") - ops_with("broadcasts"), _test),
    **dict.fromkeys(ops_with("same_type_as_input"), _unary),
    "Where": shaped(aligned, lambda site: site.dtype(1) or site.dtype(2)),
    "RMSNormalization": lambda site: [TensorType(site.dtype(1), site.shape(0))],  # the scale's dtype
}
BY_FACTS = frozenset(_BY_FACTS)

RULES: dict[str, Rule] = {
    **_BY_FACTS,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Dropout": _dropout,
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "com.microsoft::QuantizeLinear": _quantize,
    "com.microsoft::DequantizeLinear": _dequantize,
    "com.microsoft::QLinearAdd": shaped(aligned),  # scales and zero points are scalars
    "com.microsoft::QLinearMul": shaped(aligned),
    "com.microsoft::QLinearWhere": shaped(aligned, lambda site: site.dtype(1)),
    "DynamicQuantizeLinear": _quantize_dynamically,
    "RandomNormalLike": _like,
    "RandomUniformLike": _like,
    "EyeLike": _like,
    "Bernoulli": _like,
    "BatchNormalization": _batch_normalization,
    "LayerNormalization": _layer_normalization,
    "com.microsoft::SkipLayerNormalization": _skip_normalization,
    "com.microsoft::SkipSimplifiedLayerNormalization": _skip_normalization,
}


def with_vectors(view: NodeView) -> AxisLabels:
    """Vectors over the last axis of the first input, such as biases, or scales of a normalization."""
    traits, axes = traits_of(view.op), range(-rank(view, 0), 0)
    vectors = {place: range(-rank(view, place), 0) for place in traits.operands.last_axis_vectors if view.has(place)}
    mixed = axes[axis_of(view, -1) :] if traits.numerics.norm_axis is not None else ()
    return AxisLabels({0: axes, **vectors}, axes, broadcast=axes, mixed=mixed)


def along_softmax(view: NodeView) -> AxisLabels:
    """Along one axis; before opset 13 along that axis and all after it."""
    return combining(-1)(view) if view.opset >= 13 else combining(1, behind=True)(view)


def per_channel(view: NodeView) -> AxisLabels:
    """Vectors over the channels of [N, C, ...]."""
    labels = per_sample(view)
    vectors = [place for place in traits_of(view.op).operands.channel_vectors if view.has(place)]
    return labels._replace(
        inputs={**labels.inputs, **{place: [1] for place in vectors if rank(view, place) == 1}},
        output=labels.inputs[0],
        broadcast=[1],
    )


LABELS: dict[str, LabelRule] = {
    **dict.fromkeys(("LRN", "com.microsoft::GroupNorm", "com.microsoft::NhwcMaxPool"), per_sample),
    **dict.fromkeys(("LpNormalization", "Hardmax"), combining()),
    **dict.fromkeys(("com.microsoft::QLinearSoftmax", "com.microsoft::BiasSoftmax"), unknown),
    "MeanVarianceNormalization": unknown,
    "LogSoftmax": along_softmax,
}
