"""Where a cut begins: tensors that a proof makes up."""

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from surgeon.ir.scope import Scope
from surgeon.shapes.algebra.size_expressions import Size


@dataclass(slots=True)
class BoundaryInput:
    """Where a cut begins: a tensor of the source that the proof makes up.

    name: its name in the mini-models.  shape: None where the rank is unknown.  value: a small tensor of integers that
    follows from the sizes of the free dimensions alone.  weight: whether it stands for a constant too large to read.
    """

    name: str
    scope: Scope
    tensor: str
    dtype: int | None
    shape: tuple[Size, ...] | None
    value: np.ndarray | None = None
    weight: bool = False

    @property
    def size_in_bytes(self) -> int:
        """What the constant that it stands for takes, whose dims are all fixed."""
        sizes = [size for size in self.shape or () if isinstance(size, int)]
        return math.prod(sizes) * int(onnx.helper.tensor_dtype_to_np_dtype(self.dtype or TensorProto.FLOAT).itemsize)
