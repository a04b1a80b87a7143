"""Numpy reference of ONNX's linear Resize.  It checks a prepended resize.

Each output sample is a mean of input samples under a triangle around its position, in half-pixel coordinates
(x + ½) · scale - ½.  With `antialias`, the triangle is as wide as an output pixel if the image shrinks, as in the
bilinear resize of Pillow and torch (ONNX operator Resize, attribute antialias, opset 18).
"""

import numpy as np


def weights(before: int, after: int, *, antialias: bool) -> np.ndarray:
    """Weight of each input sample in each output sample: float64[after, before], rows of sum 1."""
    scale = before / after
    width = max(scale, 1.0) if antialias else 1.0
    centres = (np.arange(after) + 0.5) * scale
    if width == 1.0:  # positions beyond the outermost samples use these
        centres = np.clip(centres, 0.5, before - 0.5)
    distances = np.abs(np.arange(before)[None, :] + 0.5 - centres[:, None])
    found = np.maximum(0.0, 1.0 - distances / width)
    rows: np.ndarray = found / found.sum(axis=1, keepdims=True)
    return rows


def resample(pictures: np.ndarray, height: int, width: int, *, antialias: bool) -> np.ndarray:
    """Images [..., height, width] at another size, float64."""
    down = weights(pictures.shape[-2], height, antialias=antialias)
    across = weights(pictures.shape[-1], width, antialias=antialias)
    made: np.ndarray = down @ pictures.astype(np.float64) @ across.T
    return made
