"""Inputs of a slice: tensors of the source whose values a proof generates."""

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from surgeon.analysis.assumptions.assumption import Assumption
from surgeon.ir.scope import Scope
from surgeon.shapes.algebra.size_expressions import Size


@dataclass(slots=True)
class BoundaryInput:
    """A tensor of the source at which a slice begins; the proof generates its values."""

    name: str
    """Its name in the models of the region."""
    scope: Scope
    """A scope that reads it."""
    tensor: str
    """Its name in the source."""
    dtype: int | None
    """As `TensorProto.DataType`; None if it is unknown."""
    shape: tuple[Size, ...] | None
    """In sizes of the source; None if the rank is unknown."""
    value: np.ndarray | None = None
    """A small tensor of integers that depends only on the sizes of the dynamic dims."""
    weight: bool = False
    """Whether it represents a constant that is too large to read."""
    assumption: Assumption | None = None
    """The assumption on its values, from those on the model's inputs."""

    @property
    def size_in_bytes(self) -> int:
        """The bytes of the constant that it represents, whose dims are all fixed."""
        sizes = [size for size in self.shape or () if isinstance(size, int)]
        return math.prod(sizes) * int(onnx.helper.tensor_dtype_to_np_dtype(self.dtype or TensorProto.FLOAT).itemsize)
