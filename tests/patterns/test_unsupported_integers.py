"""Ops on integers that TensorRT does not compute with: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.unsupported_integers import (
    integer_arithmetic,
    integer_comparison,
    integer_joins,
    integer_moves,
)
from surgeon.patterns.quantization.redundant_integer_casts import redundant_integer_casts

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

CONSTANTS = (
    "uint8 z = {100}, int64[2] shape = {-1, 4}, int64[4] back = {3, 2, 1, 0}, int64[1] zero = {0}, int64[1] two = {2}, "
    "int64[1] one = {1}"
)
HERE = "(uint8[n, 4] x) => (uint8[n, 4] y)"


def model(body, head=HERE):
    return graph(body, head, CONSTANTS)


# fmt: off
FIRES = [
    Case([integer_moves, redundant_integer_casts], "a picture, its channels put first", target="tensorrt",
         model=model("a = Transpose<perm = [0, 3, 1, 2]>(x) b = Cast<to = 1>(a) y = Mul(b, b)",
                     "(uint8[1, 4, 4, 3] x) => (float[1, 3, 4, 4] y)")),
    Case([integer_moves, redundant_integer_casts], "several in a row", target="tensorrt",
         model=model("a = Flatten(x) b = Transpose(a) y = Cast<to = 1>(b)", "(uint8[2, 4] x) => (float[4, 2] y)")),
    Case([integer_moves, redundant_integer_casts], "a part of it", target="tensorrt",
         model=model("a = Slice(x, zero, two, one) y = Cast<to = 1>(a)", "(uint8[n, 4] x) => (float[n, 2] y)")),
    Case([integer_moves, redundant_integer_casts], "an output that is only handed on", target="tensorrt",
         model=graph("r = Round(x) c = Clip(r, low, high) a = Cast<to = 2>(c) y = Identity(a)",
                     "(float[n, 4] x) => (uint8[n, 4] y)", "float low = {0}, float high = {255}")),
    Case(integer_moves, "picked", model("y = Gather<axis = 1>(x, back)"), target="tensorrt"),
    Case(integer_moves, "the largest of each window", target="tensorrt",
         model=model("y = MaxPool<kernel_shape = [2, 2]>(x)", "(uint8[1, 1, 4, 4] x) => (uint8[1, 1, 3, 3] y)")),
    Case(integer_joins, "one behind the other", target="tensorrt",
         model=model("y = Concat<axis = 0>(x, x)", "(uint8[2, 4] x) => (uint8[4, 4] y)")),
    Case(integer_joins, "the larger one", model("y = Max(x, z)"), target="tensorrt"),
    *(Case(integer_arithmetic, f"{op}, which runs over", model(f"y = {op}(x, z)"), target="tensorrt")
      for op in ("Add", "Sub", "Mul", "Div", "Mod")),
    *(Case(integer_comparison, op, model(f"y = {op}(x, z)", "(uint8[n, 4] x) => (bool[n, 4] y)"), target="tensorrt")
      for op in ("Less", "GreaterOrEqual")),
]
NEGATIVES = [
    Case(integer_moves, "floats", target="tensorrt", why="TensorRT supports float32",
         model=model("y = Flatten(x)", "(float[2, 4] x) => (float[2, 4] y)")),
    Case(integer_joins, "floats", target="tensorrt", why="TensorRT supports float32",
         model=model("y = Max(x, x)", "(float[2, 4] x) => (float[2, 4] y)")),
    Case(integer_arithmetic, "integers of 32 bits", target="tensorrt", why="TensorRT supports int32",
         model=model("y = Add(x, x)", "(int32[2, 4] x) => (int32[2, 4] y)")),
    Case(integer_arithmetic, "products of 16 bits", target="tensorrt", why="int32 may not represent the result",
         model=model("y = Mul(x, x)", "(uint16[2, 4] x) => (uint16[2, 4] y)")),
    Case(integer_comparison, "floats", target="tensorrt", why="TensorRT supports float32",
         model=model("y = Less(x, x)", "(float[2, 4] x) => (bool[2, 4] y)")),
    Case(integer_comparison, "for another target", why="no form for target ort",
         model=model("y = Less(x, z)", "(uint8[n, 4] x) => (bool[n, 4] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
