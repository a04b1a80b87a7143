"""The windows of a convolution or a pooling, axis by axis.

Source: the texts of Conv, ConvTranspose, MaxPool and AveragePool in onnx.defs, and ONNX Runtime 1.31 for cases that
they leave open (negative padding, windows that begin in the padding).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

Slices = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """The windows along one spatial axis, in elements."""

    size: int
    """Size of the axis, without padding."""
    count: int
    """Number of windows."""
    kernel: int
    """Elements in one window."""
    stride: int
    """Distance between windows."""
    dilation: int
    """Distance between elements of one window."""
    pad_begin: int
    """Padding before the axis."""
    pad_end: int
    """Padding after the axis."""

    @property
    def extent(self) -> int:
        """Length of a window with its gaps."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def behind(self) -> int:
        """Padding that the last window needs; negative if it ends before the axis."""
        return (self.count - 1) * self.stride + self.extent - self.pad_begin - self.size

    def reach(self, tap: int) -> tuple[slice, slice]:
        """Return the windows whose element number `tap` is within the axis, and the indices of these elements."""
        moved = tap * self.dilation - self.pad_begin
        first = max(0, -(moved // self.stride))
        past = min(self.count, (self.size - 1 - moved) // self.stride + 1)
        if past <= first:
            return slice(0, 0), slice(0, 0)
        start = first * self.stride + moved
        return slice(first, past), slice(start, start + (past - first - 1) * self.stride + 1, self.stride)


def windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    *,
    auto_pad: str = "NOTSET",
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
) -> list[WindowAxis]:
    """Return the windows of a convolution or a pooling along each spatial axis.

    sizes, kernel, strides, dilations: one number per axis.  pads: all begins, then all ends.
    Raises ValueError if their lengths do not match, or if a kernel spans more than its axis.
    """
    rank = len(sizes)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads or [0] * (2 * rank)
    if not rank == len(kernel) == len(strides) == len(dilations) == len(pads) // 2:
        raise ValueError(f"{rank} spatial axes do not match kernel {kernel}, strides {strides}, dilations {dilations}")
    found = []
    for place, size in enumerate(sizes):
        rule = (size, kernel[place], strides[place], dilations[place])
        found.append(_axis(*rule, pads[place], pads[rank + place], auto_pad, bool(ceil_mode)))
    return found


def _axis(
    size: int, kernel: int, stride: int, dilation: int, head: int, tail: int, auto_pad: str, ceil: bool
) -> WindowAxis:
    if min(kernel, stride, dilation) < 1:
        raise ValueError(f"kernel {kernel}, stride {stride} and dilation {dilation} must be at least 1")
    extent = (kernel - 1) * dilation + 1
    if auto_pad.startswith("SAME"):
        count = -(-size // stride)
        head, tail = split_padding(max(0, (count - 1) * stride + extent - size), auto_pad)
        return WindowAxis(size, count, kernel, stride=stride, dilation=dilation, pad_begin=head, pad_end=tail)
    if auto_pad == "VALID":
        head = tail = 0
    free = size + head + tail - extent
    count = (-(-free // stride) if ceil else free // stride) + 1
    if ceil and (count - 1) * stride >= size + head:  # a window that begins after the axis does not count
        count -= 1
    if count < 0 or (free < 0 and not ceil):  # ONNX Runtime rounds such a count up, or raises
        raise ValueError(f"a kernel that spans {extent} elements does not fit into {size} elements and their padding")
    return WindowAxis(size, count, kernel, stride=stride, dilation=dilation, pad_begin=head, pad_end=tail)


def split_padding(total: int, auto_pad: str) -> tuple[int, int]:
    """Split padding into begin and end; only SAME_UPPER puts an odd element at the end."""
    less = total // 2
    return (less, total - less) if auto_pad == "SAME_UPPER" else (total - less, less)


def taps(axes: Sequence[WindowAxis]) -> Iterator[tuple[tuple[int, ...], Slices, Slices]]:
    """Yield each index in the kernel, the windows for which it is within the array, and its elements for these."""
    for tap in product(*(range(axis.kernel) for axis in axes)):
        reached = [axis.reach(number) for axis, number in zip(axes, tap, strict=True)]
        yield tap, tuple(into for into, _ in reached), tuple(out_of for _, out_of in reached)
