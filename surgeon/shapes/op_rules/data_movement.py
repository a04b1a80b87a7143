"""Rules for ops that rearrange elements: reshapes, transposes, joins and repeats."""

from collections.abc import Sequence

from surgeon.shapes.algebra.size_expressions import Expr, Size, floor_div, product
from surgeon.shapes.op_rules.axis_labels import (
    AxisLabels,
    LabelRule,
    axis_of,
    per_sample,
    rank,
    resized,
    shaped,
    unrelated,
)
from surgeon.shapes.op_rules.broadcasting import broadcast
from surgeon.shapes.tensor_types import (
    NodeView,
    PartialShape,
    PartialType,
    Rule,
    Shape,
    TensorType,
    known,
    length_of,
    normalize_axis,
    require,
)


def reshaped(shape: Shape | None, target: Sequence[Size | None], allow_zero: bool) -> list[Size | None]:
    """The shape after a Reshape: 0 keeps a dim, -1 is the size that remains."""
    sizes: list[Size | None] = []
    for axis, size in enumerate(target):
        require(size is None or isinstance(size, (int, Expr)))
        kept = isinstance(size, int) and size == 0 and not allow_zero
        require(not kept or shape is None or axis < len(shape))
        sizes.append((shape[axis] if shape is not None else None) if kept else size)
    rests = [axis for axis, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    if rests:
        others = known([size for axis, size in enumerate(sizes) if axis != rests[0]])
        is_open = shape is None or others is None or product(others) == 0
        sizes[rests[0]] = None if is_open else floor_div(product(shape or ()), product(others or ()))
    missing = [axis for axis, size in enumerate(sizes) if size is None]
    if len(missing) == 1 and shape is not None:
        others = known([size for size in sizes if size is not None]) or ()
        if product(others) != 0:
            sizes[missing[0]] = floor_div(product(shape), product(others))
    return sizes


def _reshape(site: NodeView) -> Sequence[PartialType]:
    dtype, shape = site.facts(0)
    target = site.value(1) if site.has(1) else None
    listed = site.attribute("shape") if not site.has(1) else None
    if target is not None:
        listed = target.reshape(-1).tolist()
    if listed is None:
        return [PartialType(dtype, _of_length(site, 1))]
    return [PartialType(dtype, reshaped(shape, listed, bool(site.attribute("allowzero", 0))))]


def _of_length(site: NodeView, position: int) -> PartialShape | None:
    """A shape with unknown dims; its rank is the length of the tensor that lists them."""
    rank = length_of(site.shape(position))
    return None if rank is None else [None] * rank


def _flatten(site: NodeView) -> Sequence[TensorType]:
    dtype, shape = site.ranked_type(0)
    axis = site.attribute("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return [TensorType(dtype, (product(shape[:axis]), product(shape[axis:])))]


def _squeeze(site: NodeView) -> Sequence[TensorType]:
    dtype, shape = site.ranked_type(0)
    if site.axes(1) is not None:
        return [TensorType(dtype, _squeezed_axes(site).output_shape(site))]
    require(not site.has_axes(1) and all(isinstance(size, int) for size in shape))  # all axes of size 1 are removed
    return [TensorType(dtype, tuple(size for size in shape if size != 1))]


def split_sizes(site: NodeView, whole: Size, count: int) -> list[Size | None]:
    """The sizes along the axis of a Split into `count` outputs (ONNX, Split: the last part may be smaller)."""
    if site.has(1):
        listed = site.value(1)
        return [None] * count if listed is None else listed.reshape(-1).tolist()
    if site.attribute("split") is not None:
        return [int(size) for size in site.attribute("split")]
    if site.attribute("num_outputs", count) != count:
        return [None] * count
    each = floor_div(whole + count - 1, count)
    even = floor_div(whole, count) * count == whole
    return [each] * count if even else [*[each] * (count - 1), whole - each * (count - 1)]


def _split(site: NodeView) -> Sequence[PartialType]:
    dtype, shape = site.ranked_type(0)
    count = len(site.node.outputs)
    axis = normalize_axis(site.attribute("axis", 0), len(shape))
    sizes = split_sizes(site, shape[axis], count)
    return [PartialType(dtype, [*shape[:axis], size, *shape[axis + 1 :]]) for size in sizes]


def _expand(site: NodeView) -> Sequence[PartialType]:
    (dtype, shape), target = site.ranked_type(0), site.value(1)
    if target is not None:
        return [PartialType(dtype, broadcast(shape, target.reshape(-1).tolist()))]
    least = _of_length(site, 1)
    return [PartialType(dtype, None if least is None else broadcast(shape, least))]


def _tile(site: NodeView) -> Sequence[PartialType]:
    (dtype, shape), repeats = site.ranked_type(0), site.value(1)
    if repeats is None:
        return [PartialType(dtype, [None] * len(shape))]
    require(len(shape) == repeats.size)
    each = zip(shape, repeats.reshape(-1).tolist(), strict=True)
    return [PartialType(dtype, [None if times is None else size * times for size, times in each])]


def _pad(site: NodeView) -> Sequence[PartialType]:
    dtype, shape = site.ranked_type(0)
    pads = site.sizes(1) if site.has(1) else site.attribute("pads", site.attribute("paddings"))
    if pads is None or (site.has(3) and site.numbers(3) is None):
        return [PartialType(dtype, [None] * len(shape))]
    axes = (site.numbers(3) if site.has(3) else None) or range(len(shape))
    require(len(pads) == 2 * len(axes))
    padded: list[Size] = list(shape)
    for place, axis in enumerate(axes):
        axis = normalize_axis(axis, len(shape))
        padded[axis] = padded[axis] + pads[place] + pads[place + len(pads) // 2]
    return [PartialType(dtype, padded)]


def _depth_to_space(site: NodeView) -> Sequence[TensorType]:
    dtype, shape = site.ranked_type(0)
    block = site.attribute("blocksize", 1)
    require(len(shape) == 4)
    batch, channels, height, width = shape
    return [TensorType(dtype, (batch, floor_div(channels, block * block), height * block, width * block))]


def _space_to_depth(site: NodeView) -> Sequence[TensorType]:
    dtype, shape = site.ranked_type(0)
    block = site.attribute("blocksize", 1)
    require(len(shape) == 4)
    batch, channels, height, width = shape
    return [TensorType(dtype, (batch, channels * block * block, floor_div(height, block), floor_div(width, block)))]


def _transposed_axes(view: NodeView) -> AxisLabels:
    axes = range(rank(view, 0))
    order = view.attribute("perm") or axes[::-1]
    require(isinstance(order, Sequence) and sorted(order) == list(axes))
    return AxisLabels({0: axes}, order)


def _unsqueezed_axes(view: NodeView) -> AxisLabels:
    axes, new = range(rank(view, 0)), view.axes(1)
    require(new is not None and len({*new}) == len(new))
    places, rest = [normalize_axis(axis, len(axes) + len(new or ())) for axis in new or ()], iter(axes)
    output = [None if axis in places else next(rest) for axis in range(len(axes) + len(places))]
    return AxisLabels({0: axes}, output)


def _squeezed_axes(view: NodeView) -> AxisLabels:
    axes, gone = range(rank(view, 0)), view.axes(1)
    if gone is None:
        return AxisLabels({0: axes})
    places = [normalize_axis(axis, len(axes)) for axis in gone]
    return AxisLabels({0: axes}, [axis for axis in axes if axis not in places])


def _joined_axes(view: NodeView, inputs: slice = slice(None)) -> AxisLabels:
    """One axis is concatenated from parts, all others are equal."""
    every = range(len(view.inputs))[inputs]
    places = [place for place in every if view.shape(place) is not None]
    require(bool(places) and len({rank(view, place) for place in places}) == 1)
    axes = range(rank(view, places[0]))
    axis = normalize_axis(view.attribute("axis", 1 if view.opset < 4 else 0), len(axes))
    parts = {place: ("part", place) for place in places}
    labels = {place: [*axes[:axis], part, *axes[axis + 1 :]] for place, part in parts.items()}
    output = [None if place == axis else place for place in axes]
    is_known = len(places) == len(every)
    return AxisLabels(labels, output if is_known else None, mixed=[*parts.values()], joined=[*parts.values()])


def _quantized_parts(view: NodeView) -> AxisLabels:
    """The scale and the zero point of the result, then each part with its own."""
    return _joined_axes(view, slice(2, None, 3))


def _split_axes(view: NodeView) -> AxisLabels:
    axis, axes = axis_of(view, 0), range(rank(view, 0))
    return AxisLabels({0: axes}, [None if place == axis else place for place in axes], mixed=[axis])


def _expanded_axes(view: NodeView) -> AxisLabels:
    made = view.made_shape()
    return AxisLabels({0: range(-rank(view, 0), 0)}, None if made is None else range(-len(made), 0))


def _tiled_axes(view: NodeView) -> AxisLabels:
    """Repeated axes; copies of one element do not combine any."""
    labels = resized(view)
    ones = [axis for axis, size in enumerate(view.shape(0) or ()) if size == 1]
    return labels._replace(
        mixed=[] if all(axis in ones for axis in labels.mixed if isinstance(axis, int)) else labels.mixed
    )


LABELS: dict[str, LabelRule] = {
    **dict.fromkeys(("Reshape", "Flatten"), unrelated),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), per_sample),
    "Transpose": _transposed_axes,
    "Unsqueeze": _unsqueezed_axes,
    "Squeeze": _squeezed_axes,
    "Concat": _joined_axes,
    "Split": _split_axes,
    "Expand": _expanded_axes,
    "Tile": _tiled_axes,
    "Pad": resized,
}

RULES: dict[str, Rule] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": shaped(_transposed_axes),
    "Squeeze": _squeeze,
    "Unsqueeze": shaped(_unsqueezed_axes),
    "Concat": shaped(_joined_axes, lambda site: next(filter(None, map(site.dtype, range(len(site.inputs)))), None)),
    "com.microsoft::QLinearConcat": shaped(_quantized_parts, lambda site: site.dtype(2)),
    "Split": _split,
    "Expand": _expand,
    "Tile": _tile,
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
