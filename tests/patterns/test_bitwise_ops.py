"""Bits of integers in arithmetic: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.bitwise_ops import bit_shift, bitwise, bitwise_not

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

BOTH = "(int32[n, 4] x, int32[4] z) => (int32[n, 4] y)"

# fmt: off
FIRES = [
    Case(bitwise, "BitwiseAnd of int32", target="tensorrt",
         model=graph("y = BitwiseAnd(x, z)", BOTH, "", 18)),
    Case(bitwise, "BitwiseOr of int32", target="tensorrt",
         model=graph("y = BitwiseOr(x, z)", BOTH, "", 18)),
    Case(bitwise, "BitwiseXor of int32", target="tensorrt",
         model=graph("y = BitwiseXor(x, z)", BOTH, "", 18)),
    Case(bitwise, "of int64, half by half", target="tensorrt",
         model=graph("y = BitwiseXor(x, z)", "(int64[n, 4] x, int64[4] z) => (int64[n, 4] y)", "", 18)),
    Case(bitwise, "a mask of int64", target="tensorrt",
         model=graph("y = BitwiseAnd(x, z)", "(int64[n, 4] x) => (int64[n, 4] y)",
                     "int64[4] z = {1, 255, -7, 123456789012345}", 18)),
    Case(bitwise, "of uint8", target="tensorrt",
         model=graph("y = BitwiseAnd(x, z)", "(uint8[n, 4] x, uint8[4] z) => (uint8[n, 4] y)", "", 18)),
    Case(bitwise_not, "of int32", target="tensorrt",
         model=graph("y = BitwiseNot(x)", "(int32[n, 4] x) => (int32[n, 4] y)", "", 18)),
    Case(bitwise_not, "of uint8", target="tensorrt",
         model=graph("y = BitwiseNot(x)", "(uint8[n, 4] x) => (uint8[n, 4] y)", "", 18)),
    Case(bit_shift, "to the left", target="tensorrt",
         model=graph("y = BitShift<direction = \"LEFT\">(x, z)", "(uint8[n, 4] x) => (uint8[n, 4] y)",
                     "uint8[4] z = {1, 2, 0, 7}")),
    Case(bit_shift, "to the right", target="tensorrt",
         model=graph("y = BitShift<direction = \"RIGHT\">(x, z)", "(uint8[n, 4] x) => (uint8[n, 4] y)",
                     "uint8[4] z = {1, 2, 0, 7}")),
]
NEGATIVES = [
    Case(bitwise, "ONNX Runtime has it", why="runs it as it is",
         model=graph("y = BitwiseAnd(x, z)", BOTH, "", 18)),
    Case(bitwise, "of 64 bits without a sign", target="tensorrt", why="the dtype is uint64",
         model=graph("y = BitwiseAnd(x, z)", "(uint64[n, 4] x, uint64[4] z) => (uint64[n, 4] y)", "", 18)),
    Case(bitwise_not, "ONNX Runtime has it", why="runs it as it is",
         model=graph("y = BitwiseNot(x)", "(int32[n, 4] x) => (int32[n, 4] y)", "", 18)),
    Case(bit_shift, "of 64 bits", target="tensorrt", why="at most 32 bits",
         model=graph("y = BitShift<direction = \"LEFT\">(x, x)", "(int64[n] x) => (int64[n] y)", "", 26)),
    Case(bit_shift, "ONNX Runtime has it", why="runs it as it is",
         model=graph("y = BitShift<direction = \"LEFT\">(x, x)", "(uint8[n, 4] x) => (uint8[n, 4] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
