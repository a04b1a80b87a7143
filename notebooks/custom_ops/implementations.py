"""The same operators in Python, for proofs on a machine without a compiler: `--custom-ops implementations.py`.

ONNX Runtime itself still needs the library; this is what a rewrite is proved with.
"""

import numpy as np

import surgeon

INT32 = np.iinfo(np.int32)


@surgeon.implements("test.customop::CustomOpOne")
def custom_op_one(x, y):
    """x + y of two tensors of one shape, float32."""
    if x.shape != y.shape:
        raise ValueError("CustomOpOne does not broadcast: give it two tensors of one shape.")
    return x + y


@surgeon.implements("test.customop::CustomOpTwo")
def custom_op_two(x):
    """x rounded to int32, halves to even; beyond the range of int32 the nearest end of it, and 0 for NaN."""
    rounded = np.nan_to_num(np.rint(x).astype(np.float64), nan=0.0)
    return np.clip(rounded, INT32.min, INT32.max).astype(np.int32)


@surgeon.implements("mylibrary::addandround_op")
def addandround_op(x, y):
    """What the torch op computes."""
    return np.rint(x + y)
