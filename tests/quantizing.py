"""What small nets are quantised by: made-up weights, and a few pictures at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader

if TYPE_CHECKING:
    import onnx

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


def add_weights(net: onnx.ModelProto, shapes: Shapes) -> None:
    """Store weights of these names and shapes, which keep what a net computes small."""
    rng = np.random.default_rng(0)
    for name, shape in shapes:
        net.graph.initializer.append(numpy_helper.from_array((rng.standard_normal(shape) / 3).astype(np.float32), name))


class Pictures(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime tells no types
    """Four pictures of three channels, as an input `x` [1, 3, side, side]."""

    def __init__(self, side: int) -> None:
        rng = np.random.default_rng(3)
        self._left = iter([{"x": rng.standard_normal((1, 3, side, side)).astype(np.float32)} for _ in range(4)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next picture, None behind the last."""
        return next(self._left, None)
