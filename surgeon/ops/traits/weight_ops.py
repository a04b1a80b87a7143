"""Ops that read a stored matrix for which ONNX Runtime has a counterpart with integers, and the ops around them.

The counterparts are `MatMulNBits` and `GatherBlockQuantized` of com.microsoft.
"""

from collections.abc import Mapping

LOOKUP = "Gather"
PRODUCTS: Mapping[str, tuple[str, ...]] = {
    "MatMul": (),
    "Gemm": ("transA",),
    "com.microsoft::FusedMatMul": ("transA", "transBatchA", "transBatchB"),
}
"""Products, with the flags that their counterpart does not have."""
BIASED = "Gemm"
TRANSPOSE, COPY = "Transpose", "Identity"
FACTOR, ROTARY = "Mul", "RotaryEmbedding"
