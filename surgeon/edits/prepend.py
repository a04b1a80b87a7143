"""Prepends image preprocessing to an input: uint8, layout, resize and normalization."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto

from surgeon.edits.image_resampling import resample
from surgeon.errors import UsageError
from surgeon.ops.builder.graph import Graph, Tensor
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import KeyedEdit, format_keyed
from surgeon.pipeline.editing.node_insertion import add_nodes, opset_of
from surgeon.pipeline.editing.prune import initializer_names
from surgeon.pipeline.editing.tensor_renaming import split_boundary_tensor
from surgeon.printed_commands import upgrade_to

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
CHANNELS = (1, 3, 4)  # grey, RGB, and RGB with alpha
RESIZE_SINCE = 18  # first opset at which Resize has antialias (ONNX operator Resize)
_DTYPES = {"uint8": TensorProto.UINT8, "float32": TensorProto.FLOAT}


@dataclass(frozen=True, slots=True)
class PrependImage(KeyedEdit):
    """Move image preprocessing into the model, so that it accepts raw images.

    The input must be float [batch, channels, height, width].  It becomes an image, and the model computes
    (image / scale - mean) / std in float32, with one mean and std for each channel.  Images have 1, 3 or 4 channels, or
    as many as mean or std has numbers.  The resize is linear in half-pixel coordinates, with a filter as wide as an
    output pixel, as in Pillow and torchvision.  It equals Pillow's within 1 of 255, because Pillow rounds to uint8 in
    between.

    Raises:
        UsageError: the input is not a batch of images with channels first, or the opset has no such Resize.

    Examples:
        >>> import surgeon
        >>> edit = surgeon.edits.PrependImage("images", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
        >>> edit.spelling
        'images,layout=NHWC,dtype=uint8,mean=0.485/0.456/0.406,std=0.229/0.224/0.225,scale=255'
    """

    input: str
    """The name of the input."""
    layout: Literal["NHWC", "NCHW"] = "NHWC"
    """The layout of the images: "NHWC" or "NCHW"."""
    dtype: Literal["uint8", "float32"] = "uint8"
    """The dtype of the images: "uint8" or "float32"."""
    mean: tuple[float, ...] = ()
    """The mean of each channel, or one number for all; empty for 0."""
    std: tuple[float, ...] = ()
    """The standard deviation of each channel, or one number for all; empty for 1."""
    scale: float = 255.0
    """Pixel value that represents 1.0."""
    resize: tuple[int, int] | None = None
    """The height and width to which images of any size are resized; by default they have the size of the input."""
    bgr: bool = False
    """Reverse the order of the channels, as from RGB to BGR."""
    flag = "prepend-image"
    metavar = "INPUT[,layout=NHWC,dtype=uint8,mean=A/B/C,std=A/B/C,scale=255,resize=HxW,bgr]"
    feeds: ClassVar[Literal["kept", "inner", "made"]] = "made"

    def __post_init__(self) -> None:
        self.require_kinds()
        if self.layout not in ("NHWC", "NCHW"):
            raise UsageError(f"Unknown image layout {self.layout!r}. Choose NHWC or NCHW.")
        if self.dtype not in _DTYPES:
            raise UsageError(f"Unknown image dtype {self.dtype!r}. Choose {' or '.join(_DTYPES)}.")
        if any(not 0 < one < math.inf for one in (self.scale, *self.std)):
            raise UsageError("scale and std must be finite and greater than 0, because images are divided by them.")
        if not all(map(math.isfinite, self.mean)):
            raise UsageError("mean must be a finite number for each channel.")

    @property
    def spelling(self) -> str:
        """INPUT, and the settings after it."""
        resize = None if self.resize is None else "{}x{}".format(*self.resize)
        settings = {name: getattr(self, name) for name in self.settings()}
        return format_keyed(self.input, {**settings, "resize": resize})

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Prepend it."""
        value = draft.input(self.input)
        if self.input in initializer_names(draft.graph):
            raise UsageError(f"Input {self.input!r} has a default value (an initializer). Choose an input without one.")
        if any(given.name == self.input for given in draft.graph.output):
            raise UsageError(f"{self.input!r} is both an input and an output, so no node can be inserted between them.")
        dtype, channels = self._require_pictures(value)
        if self.resize is not None and opset_of(draft) < RESIZE_SINCE:
            raise UsageError(
                f"Resizing images needs opset {RESIZE_SINCE}, but the model has opset {opset_of(draft)}. "
                f"Raise it first: {upgrade_to(RESIZE_SINCE)}"
            )
        inner = draft.fresh(f"{self.input}_normalized")
        source, own = split_boundary_tensor(draft, value, inner)
        add_nodes(draft, self._nodes(dtype, channels), {self.input: _DTYPES[self.dtype]}, [inner], at=0)
        draft.claim.make(source, (own,), lambda pictures: self._computed(pictures, dtype, channels))
        self._retype(value)
        how = [f"{self.dtype} {self.layout}"]
        how += [f"resized to {self.resize[0]} x {self.resize[1]}"] if self.resize else []
        how += ["channels reversed"] if self.bgr else []
        return (f"input '{self.input}' accepts images ({', '.join([*how, 'normalized inside'])})",)

    def _require_pictures(self, value: ValueInfoProto) -> tuple[int, int]:
        """The dtype and number of channels of the input; raises UsageError if it is not a batch of images."""
        tensor = value.type.tensor_type
        dims = list(tensor.shape.dim)
        if len(dims) == 4 and dims[3].dim_value in CHANNELS and not self._are_channels(dims[1].dim_value):
            shape = ", ".join(str(dim.dim_value or dim.dim_param or "?") for dim in dims)
            raise UsageError(
                f"Input {self.input!r} ([{shape}]) looks like NHWC, but only [batch, channels, height, width] is "
                "supported. Export the model with channels first."
            )
        if tensor.elem_type not in FLOATS or len(dims) != 4 or not dims[1].dim_value:
            dtype = dtype_name(tensor.elem_type)
            raise UsageError(
                f"Input {self.input!r} ({dtype} with {len(dims)} axes) is not a batch of images. It must be float32 "
                "or float16 [batch, channels, height, width], with a fixed number of channels."
            )
        channels = int(dims[1].dim_value)
        if not self._are_channels(channels):
            raise UsageError(
                f"Axis 1 of input {self.input!r} has {channels} elements, but images have 1, 3 or 4 channels. "
                f"If it really has {channels} channels, give a mean of {channels} numbers."
            )
        for name, given in (("mean", self.mean), ("std", self.std)):
            if len(given) not in (0, 1, channels):
                raise UsageError(f"{name} has {len(given)} numbers, but {self.input!r} has {channels} channels.")
        taken = [dim.dim_value for dim in dims[2:]]
        if any(size not in (0, made) for size, made in zip(taken, self.resize or taken, strict=True)):
            sizes = "x".join(str(size or "?") for size in taken)
            raise UsageError(f"Input {self.input!r} needs images of {sizes}. Resize them to that size.")
        return tensor.elem_type, channels

    def _are_channels(self, count: int) -> bool:
        """Whether an axis of this size may be channels: 1, 3, 4, or the number of means or stds."""
        return count in CHANNELS or (count > 1 and count in (len(self.mean), len(self.std)))

    def _offset_and_factor(self, channels: int) -> tuple[np.ndarray, np.ndarray]:
        """The offset to subtract, and the factor: float32 [1, channels, 1, 1]."""
        mean, std = (np.array(given or empty, np.float64) for given, empty in ((self.mean, (0,)), (self.std, (1,))))
        shape = (1, channels, 1, 1)
        rows = [np.broadcast_to(row, channels).reshape(shape) for row in (mean * self.scale, 1 / (std * self.scale))]
        return rows[0].astype(np.float32), rows[1].astype(np.float32)

    def _nodes(self, dtype: int, channels: int) -> Callable[[Graph, Tensor], Tensor]:
        offset, factor = self._offset_and_factor(channels)

        def build(g: Graph, x: Tensor) -> Tensor:
            y = g.transpose(x, perm=[0, 3, 1, 2]) if self.layout == "NHWC" else x
            if self.bgr:
                y = g.gather(y, np.arange(channels - 1, -1, -1), axis=1)
            if self.dtype != "float32":
                y = g.cast(y, to=TensorProto.FLOAT)
            if self.resize is not None:
                sizes = np.array(self.resize, np.int64)
                y = g.resize(y, None, None, sizes, axes=[2, 3], mode="linear", antialias=1, exclude_outside=1)
            if offset.any():
                y = g.sub(y, offset)
            if (factor != 1).any():
                y = g.mul(y, factor)
            return g.cast(y, to=dtype) if dtype != TensorProto.FLOAT else g.identity(y) if y is x else y

        return build

    def _computed(self, pictures: np.ndarray, dtype: int, channels: int) -> np.ndarray:
        """The same in numpy, computed in float64."""
        found = pictures.astype(np.float64)
        found = found.transpose(0, 3, 1, 2) if self.layout == "NHWC" else found
        found = found[:, ::-1] if self.bgr else found
        if self.resize is not None:
            found = resample(found, *self.resize, antialias=True)
        offset, factor = self._offset_and_factor(channels)
        made: np.ndarray = ((found - offset) * factor).astype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
        return made

    def _retype(self, value: ValueInfoProto) -> None:
        """Declare the new type of the input."""
        tensor = value.type.tensor_type
        batch, channels, height, width = (type(dim).FromString(dim.SerializeToString()) for dim in tensor.shape.dim)
        if self.resize is not None:
            for dim, name in ((height, "height"), (width, "width")):
                dim.dim_param = f"{self.input}_{name}"
        order = (batch, height, width, channels) if self.layout == "NHWC" else (batch, channels, height, width)
        del tensor.shape.dim[:]
        tensor.shape.dim.extend(order)
        tensor.elem_type = _DTYPES[self.dtype]
