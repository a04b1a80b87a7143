"""Adapters: the changes that keep the meaning of a node at the next version of its op.

An adapter edits the change of one node; it raises ConditionFailed if the node would change its meaning.  Sources: the
operator change log of ONNX (docs/Changelog.md), the version converter's adapters (onnx/version_converter/adapters), and
ONNX Runtime's kernels if ONNX does not specify the meaning.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from onnx import NodeProto, helper

from surgeon.errors import require
from surgeon.ops.traits.trait_lookup import OP_TRAITS
from surgeon.shapes.opsets.node_change import Change, Moved


def _move_axes(change: Change) -> None:
    axes = change.value("axes")
    if axes is not None:
        require(axes, "its empty axes have another meaning")
        change.move("axes", np.asarray(axes, np.int64))


def _move_split(change: Change) -> None:
    sizes = change.value("split")
    if sizes is not None:
        change.move("split", np.asarray(sizes, np.int64))


def _number_outputs(change: Change) -> None:
    if "split" not in change.moved and not any(change.node.inputs[1:]):
        change.add("num_outputs", change.outputs)


def _move_ratio(change: Change) -> None:
    """Dropout: inference before and after, because training_mode is absent; bool mask since opset 10."""
    ratio = change.value("ratio")
    if ratio is not None:
        change.move("ratio", np.asarray(ratio, np.float32))


def _move_bounds(change: Change) -> None:
    """Clip: an absent bound stays the end of its dtype, or of float32, which is beyond that of float16."""
    least, most = change.number("min"), change.number("max")
    if least is not None or most is not None:
        change.move("min", least)
    if most is not None:
        change.move("max", most, 2)


def _move_pads(change: Change) -> None:
    filled = change.number("value")
    change.move("pads", np.asarray(change.value("pads"), np.int64))
    if filled is not None:
        change.move("value", filled, 2)


def _move_count(change: Change) -> None:
    change.move("k", np.asarray([change.value("k")], np.int64))


def _move_ranges(change: Change) -> None:
    for place, name in enumerate(("starts", "ends", "axes"), 1):
        values = change.value(name)
        if values is not None:
            change.move(name, np.asarray(values, np.int64), place)


def _keep_sampling(change: Change) -> None:
    """RoiAlign: the former behaviour got a name when the default changed."""
    change.add("coordinate_transformation_mode", "output_half_pixel")


def _rename_modes(change: Change) -> None:
    """GridSample: bilinear and bicubic, also the default, were renamed."""
    mode = {b"bilinear": "linear", b"bicubic": "cubic"}.get(change.value("mode"))
    if mode is not None:
        change.drop("mode")
        change.add("mode", mode)


def _type_of_scale(_: Change) -> None:
    """DequantizeLinear: float like the scale, then of the scale's type, then of that unless output_dtype is set."""


def _last_axis(change: Change) -> None:
    """Softmax and similar ops: over the flattened tail before, over one axis now."""
    given, shape = change.value("axis"), change.shape
    if given == -1:
        return
    first, longer = 1 if given is None else int(given), None
    if shape is not None:
        first = first % len(shape) if shape else 0
        if first >= len(shape) - 1:
            return
        longer = [place for place in range(first, len(shape)) if shape[place] != 1]
    if "axis" in change.attributes:
        change.drop("axis")
    change.add("axis", longer[0] if longer and len(longer) == 1 else -1)
    if longer is not None and len(longer) < 2:  # the other axes of the tail have one element each
        return
    change.said.append(f"works over the flattened axes from {first} on, between a Flatten and a Reshape")
    change.around = partial(_flattened, first)


def _flattened(axis: int, node: NodeProto, fresh: Callable[[str], str]) -> Sequence[NodeProto]:
    """A node over the last axis, between a Flatten from an axis on and a Reshape back."""
    source, result = node.input[0], node.output[0]
    flat, made, shape = (fresh(f"{result}_{what}") for what in ("flat", "last", "shape"))
    node.input[0], node.output[0] = flat, made
    return [
        helper.make_node("Shape", [source], [shape], _name_of(node, "shape")),
        helper.make_node("Flatten", [source], [flat], _name_of(node, "flatten"), axis=axis),
        node,
        helper.make_node("Reshape", [made, shape], [result], _name_of(node, "reshape")),
    ]


def _name_of(node: NodeProto, what: str) -> str:
    """The name of a new node next to a given one; nameless if that is."""
    return f"{node.name}_{what}" if node.name else ""


def _add_region(change: Change) -> None:
    """Resize-11 names the sampling that was implicit before, and requires `roi`, which it does not read.

    ONNX does not define the rounding of version 10.  ONNX Runtime (upsamplebase.h) rounds down on axes that it enlarges
    and up on axes that it shrinks; without a known scale the direction is unknown.
    """
    scales = np.ones(1) if change.node.op == "Upsample" else change.constant(1)  # Upsample scales are at least 1
    change.operands.insert(1, Moved("roi", np.zeros(0, np.float32)))
    change.add("coordinate_transformation_mode", "asymmetric")
    if change.value("mode") in (None, b"nearest"):
        require(scales is not None, "its rounding depends on its scales, which are unknown")
        known = np.asarray(scales)
        shrinks, enlarges = bool((known < 1).any()), bool((known > 1).any())
        require(not (shrinks and enlarges), "this node enlarges one axis and shrinks another, which differ in rounding")
        change.add("nearest_mode", "ceil" if shrinks else "floor")


def _move_scales(change: Change) -> None:
    change.move("scales", np.asarray(change.value("scales"), np.float32))


def _move_axis(change: Change) -> None:
    """DFT: an absent axis was the first after the batch, and is now the last of the signal."""
    axis, rank = change.value("axis"), change.rank
    if rank is not None and (1 if axis is None else axis) % rank == rank - 2:
        if axis is not None:
            change.drop("axis")
        return
    if change.inputs == 1:
        change.operands.append("")
    change.move("axis", np.asarray(1 if axis is None else axis, np.int64), 2)


def _by_channel(change: Change) -> None:
    """GroupNormalization: scale and bias had one element for each group, and now have one for each channel."""
    shape, groups = change.shape, change.value("num_groups")
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    require(isinstance(channels, int), "its scale and bias are per channel, but the number of channels is unknown")
    given = [change.constant(place) for place in (1, 2)]
    require(all(one is not None for one in given), "its scale and bias are per channel, but they are not constants")
    if groups == channels:
        return
    for place, (name, one) in enumerate(zip(("scale", "bias"), given, strict=True), 1):
        change.operands[place] = Moved(name, np.repeat(np.asarray(one), channels // groups))
    change.said.append("scale and bias are repeated for the channels of each group")


def _of_one_type(change: Change) -> None:
    """LayerNormalization: ONNX Runtime's own op, older than ONNX's, returns the dtype of its scale."""
    known = change.type_string(0)
    require(known and known == change.type_string(1), "its scale must have the dtype of its input")


def _of_float(change: Change) -> None:
    """Range: its steps are summed in float32 if they are of half precision."""
    known = change.type_string(0)
    require(known and known not in ("tensor(float16)", "tensor(bfloat16)"), "its steps are rounded differently")


def _spatial(change: Change) -> None:
    require(change.value("spatial") != 0, "its attribute spatial is removed")
    if "spatial" in change.attributes:
        change.drop("spatial")


def _inference_only(change: Change) -> None:
    """BatchNormalization: one output means inference, before and after."""
    require(change.outputs == 1, "its training outputs differ")


def _whole_windows(change: Change) -> None:
    """Pooling: the count of a window that exceeds the edge changed with ceil_mode, so such a window is not allowed."""
    if change.value("ceil_mode"):
        sizes, windows = (change.shape or ())[2:], _windows(change)
        is_known = windows is not None and all(isinstance(size, int) for size in sizes)
        fits = is_known and all(
            (size + first + last - window) % step == 0
            for size, (window, step, first, last) in zip(sizes, windows or (), strict=False)
        )
        require(fits, "its ceil_mode has another meaning" + ("" if is_known else " (its sizes are unknown)"))


def _windows_inside(change: Change) -> None:
    """MaxPool: of the windows that exceed the edge, only those entirely in the padding were removed."""
    windows = _windows(change)
    if windows is None or any(step + last > window for window, step, _, last in windows):
        _whole_windows(change)


def _windows(change: Change) -> list[tuple[int, int, int, int]] | None:
    """The extent of a pooling window, its step, and the padding before and after, for each axis; None for padding that
    depends on the sizes."""
    if change.value("auto_pad") in (b"SAME_UPPER", b"SAME_LOWER"):
        return None
    kernel = change.value("kernel_shape")
    ones = [1] * len(kernel)
    steps, gaps = change.value("strides") or ones, change.value("dilations") or ones
    pads = change.value("pads") or [0] * 2 * len(kernel)
    extents = [(window - 1) * gap + 1 for window, gap in zip(kernel, gaps, strict=True)]
    return list(zip(extents, steps, pads[: len(kernel)], pads[len(kernel) :], strict=True))


def _padded_alike(_: Change) -> None:
    """ConvTranspose: ONNX put the odd element of SAME_UPPER in front until opset 11; ONNX Runtime never did."""


def _no_tensorflow_pixels(change: Change) -> None:
    """Resize: TensorFlow's pixels of nearest neighbours, rounded down, are half pixels that are rounded half up."""
    if change.value("coordinate_transformation_mode") == b"tf_half_pixel_for_nn":
        is_nearest = change.value("mode") in (None, b"nearest") and change.value("nearest_mode") == b"floor"
        require(is_nearest, "its tf_half_pixel_for_nn is removed")
        change.drop("coordinate_transformation_mode")
        change.drop("nearest_mode")
        change.add("coordinate_transformation_mode", "half_pixel")
        change.add("nearest_mode", "round_prefer_ceil")


_AXES_MOVED = [
    op for op in OP_TRAITS.values() if op.shape.axes is not None and op.shape.axes.since and op.shape.axes.slot == 1
]
ADAPTERS: Mapping[tuple[str, int], Callable[[Change], None]] = {
    **{(op.name, op.shape.axes.since): _move_axes for op in _AXES_MOVED if op.shape.axes is not None},
    **{(name, 13): _last_axis for name in ("Softmax", "LogSoftmax", "Hardmax")},
    **{("AveragePool", version): _whole_windows for version in (19, 22)},
    ("LpPool", 22): _whole_windows,
    ("MaxPool", 22): _windows_inside,
    ("Clip", 11): _move_bounds,
    ("Pad", 11): _move_pads,
    ("Slice", 10): _move_ranges,
    ("Split", 13): _move_split,
    ("Split", 18): _number_outputs,
    ("TopK", 10): _move_count,
    ("Dropout", 12): _move_ratio,
    ("RoiAlign", 16): _keep_sampling,
    ("GridSample", 20): _rename_modes,
    **{("DequantizeLinear", version): _type_of_scale for version in (19, 23)},
    ("BatchNormalization", 9): _spatial,
    ("BatchNormalization", 14): _inference_only,
    ("ConvTranspose", 11): _padded_alike,
    ("Upsample", 9): _move_scales,
    ("Upsample", 10): lambda change: change.become("Resize"),
    ("Resize", 11): _add_region,
    ("Resize", 13): _no_tensorflow_pixels,
    ("Scatter", 11): lambda change: change.become("ScatterElements"),
    ("DFT", 20): _move_axis,
    ("GroupNormalization", 21): _by_channel,
    ("LayerNormalization", 17): _of_one_type,
    ("Range", 27): _of_float,
}
"""By op and version: from the version before to this one."""
MEANING_CHANGED: Mapping[tuple[str, int], str] = {
    ("Attention", 24): "its masking differs",
    ("Attention", 25): "its masking differs",
}
"""Versions of an op whose meaning changed under the same signature, and how."""
NEUTRAL_ATTRIBUTES = frozenset({
    ("MaxPool", 8), ("AveragePool", 10), ("MaxPool", 10), ("Constant", 11), ("DepthToSpace", 11), ("TopK", 11),
    ("ArgMax", 12), ("ArgMin", 12), ("Constant", 12), ("GatherND", 12), ("DequantizeLinear", 13),
    ("QuantizeLinear", 13), ("GRU", 14), ("LSTM", 14), ("RNN", 14), ("Reshape", 14), ("Shape", 15),
    ("ScatterElements", 16), ("ScatterND", 16), ("LpPool", 18), ("Resize", 18), ("Cast", 19), ("CastLike", 19),
    ("QuantizeLinear", 19), ("QuantizeLinear", 21), ("DequantizeLinear", 21), ("QuantizeLinear", 23),
    ("Cast", 24), ("CastLike", 24),
})  # fmt: skip
"""Versions of an op with new attributes whose defaults keep the old meaning."""
