"""MatMul, Gemm, Einsum and determinants."""
