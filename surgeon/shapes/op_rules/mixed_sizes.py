"""Along which axes an op combines elements: a batch along such an axis would have samples that see one another.

A rule yields the sizes of these axes in the inputs, and None for one that is unknown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Expr, Size
from surgeon.shapes.tensor_types import INTEGERS, NodeView, TensorType, normalize_axis

Mixed: TypeAlias = Iterable[Size | None]
MixingRule: TypeAlias = Callable[[NodeView, Sequence[TensorType]], Mixed]
"""From a node and the types of its outputs."""


def rule_by_traits(op: str) -> MixingRule | None:
    """The rule that an op's traits imply; None if they imply none."""
    traits = traits_of(op)
    if traits.products.attention_inputs is not None:
        return _attention
    if traits.numerics.is_softmax:
        return _softmax
    numerics = traits.numerics
    return _along if numerics.reduces or numerics.norm_axis is not None or numerics.is_max_like else None


def _sizes(site: NodeView, position: int, axes: Iterable[int] | None = None) -> Mixed:
    """The sizes of some axes of an input, by default of all."""
    shape = site.shape(position)
    if shape is None:
        return (None,)
    chosen = range(len(shape)) if axes is None else [normalize_axis(axis, len(shape)) for axis in axes]
    return [shape[axis] for axis in chosen]


def _along(site: NodeView, _: Sequence[TensorType]) -> Mixed:
    """Along axes that an input or an attribute names."""
    rank = len(site.shape(0) or ())
    if traits_of(site.node.op).numerics.reduces:
        axes = site.axes(1)
        if axes is None and site.has_axes(1):
            return (None,)
        return _sizes(site, 0, axes or (range(0) if site.attribute("noop_with_empty_axes", 0) else None))
    return _sizes(site, 0, range(normalize_axis(site.attribute("axis", -1), max(rank, 1)), rank))


def _softmax(site: NodeView, _: Sequence[TensorType]) -> Mixed:
    """Along one axis; before opset 13 along that axis and all behind it."""
    axis, rank = site.attribute("axis", -1 if site.opset >= 13 else 1), len(site.shape(0) or ())
    return _sizes(site, 0, [axis] if site.opset >= 13 else range(normalize_axis(axis, max(rank, 1)), rank))


def _on_axis(default: int) -> MixingRule:
    return lambda site, _: _sizes(site, 0, [site.attribute("axis", default)])


def _per_sample(site: NodeView, _: Sequence[TensorType]) -> Iterator[Size | None]:
    """Ops on [N, C, ...] that compute each sample by itself."""
    if site.attribute("training_mode", 0) or len(site.node.outputs) > 1:
        yield None  # further outputs are means or indices over the whole batch
        return
    yield from _sizes(site, 0, range(1, len(site.shape(0) or ())))
    for place in range(1, len(site.inputs)):
        if site.has(place):
            yield from _sizes(site, place)


def _matmul(site: NodeView, _: Sequence[TensorType]) -> Iterator[Size | None]:
    yield from _sizes(site, 0, [-1])
    yield from _sizes(site, 1, [-2 if len(site.shape(1) or ()) > 1 else -1])


def _gemm(site: NodeView, _: Sequence[TensorType]) -> Iterator[Size | None]:
    yield from _sizes(site, 0, [0 if site.attribute("transA") else 1])
    yield from _sizes(site, 1, [1 if site.attribute("transB") else 0])


def _einsum(site: NodeView, _: Sequence[TensorType]) -> Iterator[Size | None]:
    left, _arrow, right = site.attribute("equation", "").replace(" ", "").partition("->")
    if "." in left:
        yield None
    for position, term in enumerate(left.split(",")):
        for axis, label in enumerate(term):
            if label not in right:
                yield from _sizes(site, position, [axis])


def _by_tuples(site: NodeView, _: Sequence[TensorType]) -> Mixed:
    indices, table = site.shape(1), site.shape(0)
    if indices is None or table is None or not isinstance(indices[-1], int):
        return (None,)
    batch = site.attribute("batch_dims", 0)
    return table[batch : batch + indices[-1]]


def _resized(site: NodeView, made: Sequence[TensorType]) -> Iterator[Size | None]:
    """Axes that get another size."""
    shape = site.shape(0)
    if shape is None or made[0].shape is None or len(shape) != len(made[0].shape):
        yield None
        return
    for before, after in zip(shape, made[0].shape, strict=True):
        if before != after:
            yield from (before, after)


def _tile(site: NodeView, made: Sequence[TensorType]) -> Iterator[Size | None]:
    """Axes of more than one element that are repeated."""
    shape = site.shape(0)
    if shape is None or made[0].shape is None:
        yield None
        return
    for before, after in zip(shape, made[0].shape, strict=True):
        if before not in (1, after):
            yield from (before, after)


def _concat(site: NodeView, _: Sequence[TensorType]) -> Iterator[Size | None]:
    for place in range(len(site.inputs)):
        yield from _sizes(site, place, [site.attribute("axis", 0)])


def _attention(site: NodeView, _: Sequence[TensorType]) -> Iterator[Size | None]:
    """Attention computes each sample by itself, from all of its tokens."""
    for place in range(len(site.inputs)):
        if site.has(place):
            yield from _sizes(site, place, range(1, len(site.shape(place) or ())))


def _scan(site: NodeView, _: Sequence[TensorType]) -> Iterator[Size | None]:
    """Scan runs along an axis of its last inputs; its body is checked by itself."""
    if site.opset < 9:
        yield None
        return
    count = site.attribute("num_scan_inputs", 1)
    for place, axis in enumerate(site.attribute("scan_input_axes") or [0] * count):
        yield from _sizes(site, len(site.inputs) - count + place, [axis])


def _cast(site: NodeView, made: Sequence[TensorType]) -> Mixed:
    """A size cast to float is a number to compute with, such as the count of samples of a mean."""
    value = site.value(0)
    sizes = [] if value is None else [item for item in value.flat if isinstance(item, Expr)]
    return sizes if made[0].dtype not in INTEGERS else ()


def _all(site: NodeView, _: Sequence[TensorType]) -> Mixed:
    """Results depend on the position along every axis."""
    return (None,)


def _none(site: NodeView, _: Sequence[TensorType]) -> Mixed:
    """Each element is computed by itself, and no trait says so."""
    return ()


RULES: Mapping[str, MixingRule] = {
    **dict.fromkeys(("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand"), _none),
    **dict.fromkeys(("ConstantOfShape", "Clip", "DequantizeLinear", "QuantizeLinear"), _none),
    **dict.fromkeys(("OneHot", "Dropout", "If", "Loop"), _none),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    **dict.fromkeys(("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "QLinearConv"), _per_sample),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "LRN", "DeformConv"), _per_sample),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization", "GroupNormalization"), _per_sample),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth", "ConvInteger", "MaxUnpool"), _per_sample),
    **dict.fromkeys(("com.microsoft::GroupNorm", "com.microsoft::NhwcMaxPool"), _per_sample),
    **dict.fromkeys(("TopK", "Hardmax", "LpNormalization"), _on_axis(-1)),
    **dict.fromkeys(("ArgMax", "ArgMin", "Split", "Gather", "GatherElements"), _on_axis(0)),
    **dict.fromkeys(("ScatterElements", "Scatter"), _on_axis(0)),
    **dict.fromkeys(("GatherND", "ScatterND"), _by_tuples),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), lambda site, _: _sizes(site, 0, [1 - _batch_axis(site), 2])),
    **dict.fromkeys(("Pad", "Resize", "Upsample", "Slice"), _resized),
    **dict.fromkeys(("RotaryEmbedding", "com.microsoft::RotaryEmbedding"), _attention),
    **dict.fromkeys(("MeanVarianceNormalization", "ReverseSequence", "TensorScatter", "Range"), _all),
    **dict.fromkeys(("com.microsoft::QLinearSoftmax", "com.microsoft::BiasSoftmax"), _all),
    **dict.fromkeys(
        ("com.microsoft::Inverse", "com.microsoft::Trilu", "Trilu"), lambda site, _: _sizes(site, 0, [-2, -1])
    ),
    **dict.fromkeys(("CumSum", "CumProd"), lambda site, _: _sizes(site, 0, site.numbers(1))),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _along),
    **dict.fromkeys(("MatMul", "MatMulInteger"), _matmul),
    "Concat": _concat,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "LogSoftmax": _softmax,
    "Scan": _scan,
    "Tile": _tile,
}


def _batch_axis(site: NodeView) -> int:
    return 0 if site.attribute("layout", 0) else 1
