"""Rules for products: MatMul, Gemm, Einsum, convolutions and pools."""

from collections.abc import Hashable, Sequence
from typing import Any

from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Size, at_least, floor_div, size_min
from surgeon.shapes.op_rules.axis_labels import AxisLabels, LabelRule, per_sample, rank, shaped
from surgeon.shapes.tensor_types import (
    FLOAT,
    INT32,
    INT64,
    NodeView,
    PartialShape,
    PartialType,
    Rule,
    Shape,
    TensorType,
    require,
)


def _matmul_n_bits(site: NodeView) -> Sequence[PartialType]:
    shape, columns = site.shape(0), site.attribute("N")
    return [PartialType(site.dtype(0), None if shape is None else [*shape[:-1], columns])]


class _Windows:
    """The attributes of a convolution or pool, one number for each spatial axis."""

    def __init__(self, site: NodeView, kernel: Sequence[Size], rank: int) -> None:
        self.kernel = kernel
        self.strides: list[int] = site.attribute("strides") or [1] * rank
        self.dilations: list[int] = site.attribute("dilations") or [1] * rank
        self.pads: list[int] = site.attribute("pads") or [0] * 2 * rank
        self.auto: str = site.attribute("auto_pad", "NOTSET")
        self.rank = rank
        require(len(kernel) == len(self.strides) == len(self.dilations) == rank and len(self.pads) == 2 * rank)

    def extent(self, axis: int) -> Size:
        """The size that the dilated kernel covers."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def padding(self, axis: int) -> int:
        """The padding at both ends together; an automatic padding counts as none."""
        return self.pads[axis] + self.pads[axis + self.rank] if self.auto in ("NOTSET", "") else 0

    def size(self, axis: int, size: Size, ceil: bool = False) -> Size:
        """The number of positions of the kernel along an axis of a convolution or pool."""
        stride = self.strides[axis]
        if self.auto.startswith("SAME"):
            return floor_div(size + stride - 1, stride)
        room = size + self.padding(axis) - self.extent(axis)
        if not ceil or stride == 1:
            return floor_div(room, stride) + 1
        # A last window that starts in the padding at the end does not count.
        last = floor_div(size + self.pads[axis] - 1, stride)
        return size_min(-floor_div(-room, stride), last) + 1

    def pooled(self, axis: int, size: Size, ceil: bool) -> Size | None:
        """The same for a pool; None if ONNX Runtime differs from the standard."""
        is_too_large = isinstance(size, int) and not at_least(size + self.padding(axis), self.extent(axis))
        is_same = self.auto.startswith("SAME")
        is_odd = self.dilations[axis] > 1 if is_same else is_too_large
        return None if is_odd else self.size(axis, size, ceil)

    def transposed(self, axis: int, size: Size, extra: int) -> Size:
        """The size along an axis of the output of a transposed convolution."""
        full = (size - 1) * self.strides[axis] + extra + self.extent(axis)
        if self.auto.startswith("SAME"):  # without overlap nothing is added
            return size_min(size * self.strides[axis], full)
        return full - self.padding(axis)


def _convolved(site: NodeView, data: Shape | None, weight: Shape | None) -> PartialShape | None:
    if data is None or weight is None:
        return None
    require(len(data) == len(weight) > 1)
    spatial = data[2:]
    windows = _Windows(site, site.attribute("kernel_shape") or weight[2:], len(spatial))
    return [data[0], weight[0], *(windows.size(axis, size) for axis, size in enumerate(spatial))]


def _convolution(site: NodeView) -> Sequence[PartialType]:
    return [PartialType(site.dtype(0), _convolved(site, site.shape(0), site.shape(1)))]


def _integer_convolution(site: NodeView) -> Sequence[PartialType]:
    return [PartialType(INT32, _convolved(site, site.shape(0), site.shape(1)))]


def _quantized_convolution(site: NodeView) -> Sequence[PartialType]:
    return [PartialType(site.dtype(7), _convolved(site, site.shape(0), site.shape(3)))]


def _transposed_convolution(site: NodeView) -> Sequence[PartialType]:
    (dtype, data), (_, weight) = site.ranked_type(0), site.ranked_type(1)
    require(len(data) == len(weight) > 1)
    rank = len(data) - 2
    windows = _Windows(site, site.attribute("kernel_shape") or weight[2:], rank)
    extra: list[int] = site.attribute("output_padding") or [0] * rank
    stated: list[int] = site.attribute("output_shape") or []
    require(len(extra) == rank and len(stated) in (0, rank, rank + 2))
    spatial: list[Size] = list(stated[-rank:]) or [
        windows.transposed(axis, size, extra[axis]) for axis, size in enumerate(data[2:])
    ]
    return [PartialType(dtype, [data[0], weight[1] * site.attribute("group", 1), *spatial])]


def _pool(site: NodeView) -> Sequence[PartialType]:
    dtype, data = site.facts(0)
    kernel: Any = site.attribute("kernel_shape")
    if data is None or kernel is None:
        return [PartialType(dtype, None), PartialType(INT64, None)]
    require(len(data) > 1)
    windows = _Windows(site, kernel, len(data) - 2)
    ceil = bool(site.attribute("ceil_mode", 0))
    shape = [*data[:2], *(windows.pooled(axis, size, ceil) for axis, size in enumerate(data[2:]))]
    return [PartialType(dtype, shape), PartialType(INT64, shape)]


def _global_pool(site: NodeView) -> Sequence[TensorType]:
    dtype, data = site.facts(0)
    return [TensorType(dtype, None if data is None else (*data[:2], *[1] * (len(data) - 2)))]


def _quantized_pool(site: NodeView) -> Sequence[PartialType]:
    """As for floats; unknown for channels last."""
    return [PartialType(site.dtype(0), None)] if site.attribute("channels_last", 0) else _pool(site)[:1]


def _quantized_global_pool(site: NodeView) -> Sequence[TensorType]:
    return [TensorType(site.dtype(0), None)] if site.attribute("channels_last", 0) else _global_pool(site)


def product_axes(view: NodeView) -> AxisLabels:
    """[batch, rows, inner] times [batch, inner, columns]; either may be transposed, or a vector."""
    positions = traits_of(view.op).products.factors or (0, 1)
    ranks = [rank(view, position) for position in positions]
    require(all(ranks) and not view.attribute("transBatchA") and not view.attribute("transBatchB"))
    ends = [["rows", "inner"] if ranks[0] > 1 else ["inner"], ["inner", "columns"] if ranks[1] > 1 else ["inner"]]
    for end, flip in zip(ends, ("transA", "transB"), strict=True):
        if view.attribute(flip):
            end.reverse()
    batches = [range(-each, -2) for each in ranks]
    batch = max(batches, key=len)
    labels = {place: [*axes, *end] for place, axes, end in zip(positions, batches, ends, strict=True)}
    last = [label for label in ("rows", "columns") if any(label in end for end in ends)]
    return AxisLabels(labels, [*batch, *last], broadcast=batch, mixed=["inner"])


def _matrix_axes(view: NodeView) -> AxisLabels:
    labels = product_axes(view)
    require(all(len(axes) == 2 for axes in labels.inputs.values()))
    return labels


def _gemm_axes(view: NodeView) -> AxisLabels:
    labels, output, added = _matrix_axes(view), ["rows", "columns"], view.shape(2) or ()
    require(len(added) <= len(output))
    spread = [None if size == 1 else label for size, label in zip(added, output[2 - len(added) :], strict=True)]
    return labels._replace(inputs={**labels.inputs, 2: spread}) if added else labels


def _einsum_axes(view: NodeView) -> AxisLabels:
    """An ellipsis represents axes that broadcast, labelled from their end."""
    given, arrow, result = view.attribute("equation", "").replace(" ", "").replace("...", ".").partition("->")
    if not arrow:
        once = sorted(label for label in {*given} - {*",."} if given.count(label) == 1)
        result = "." * ("." in given) + "".join(once)
    inputs: dict[int, list[Hashable]] = {}
    rest = 0
    for place, term in enumerate(given.split(",")):
        before, dots, after = term.partition(".")
        others = rank(view, place) - len(before) - len(after)
        require(others >= 0 and (bool(dots) or not others))
        inputs[place], rest = [*before, *range(-others, 0), *after], max(rest, others)
    output = [each for label in result for each in (range(-rest, 0) if label == "." else label)]
    every = {label for labels in inputs.values() for label in labels}
    return AxisLabels(inputs, output, broadcast=every, mixed=every - {*output})


LABELS: dict[str, LabelRule] = {
    **dict.fromkeys(("Gemm", "com.microsoft::FusedGemm"), _gemm_axes),
    **dict.fromkeys(("Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv"), per_sample),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool", "MaxUnpool"), per_sample),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), per_sample),
    "Einsum": _einsum_axes,
}

_matmul = shaped(product_axes)
RULES: dict[str, Rule] = {
    "MatMul": _matmul,
    "MatMulInteger": shaped(product_axes, lambda _: INT32),
    "QLinearMatMul": shaped(product_axes, lambda site: site.dtype(7)),
    **dict.fromkeys(("com.microsoft::FusedMatMul", "com.microsoft::TransposeMatMul"), shaped(product_axes)),
    "com.microsoft::MatMulIntegerToFloat": shaped(product_axes, lambda site: site.dtype(2)),  # that of the scales
    **dict.fromkeys(("com.microsoft::DynamicQuantizeMatMul", "com.microsoft::GemmFastGelu"), _matmul),
    **dict.fromkeys(("Gemm", "com.microsoft::FusedGemm"), shaped(_matrix_axes)),
    "com.microsoft::QGemm": shaped(_matrix_axes, lambda site: site.dtype(8) if site.has(8) else FLOAT),
    "com.microsoft::MatMulNBits": _matmul_n_bits,
    "Einsum": shaped(_einsum_axes),
    "Conv": _convolution,
    "com.microsoft::FusedConv": _convolution,
    "ConvInteger": _integer_convolution,
    "QLinearConv": _quantized_convolution,
    "ConvTranspose": _transposed_convolution,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    "com.microsoft::QLinearAveragePool": _quantized_pool,
    "com.microsoft::QLinearGlobalAveragePool": _quantized_global_pool,
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), _global_pool),
}
BY_FACTS = frozenset(op for op, rule in RULES.items() if rule is _matmul)
