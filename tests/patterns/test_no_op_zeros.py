"""Sums with zeros made for them, and products of what is one number everywhere: what does not match and why."""

import pytest
from surgeon.patterns.cleanup.no_op_zeros import cast_full, no_op_zeros, scaled_full

from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = (
    "float zero = {0}, float two = {2}, int64[1] one = {1}, float[1] three = {3}, float[1, 1] deep = {3}, "
    "float[4, 1] some = {0, 1, 0, 2}"
)
MADE = "s = Shape(x) c = ConstantOfShape<value = float[1] {0}>(s)"
SPREAD = "s = Shape(x) c = Expand(two, s)"
SCALED = "s = Shape(x) c = ConstantOfShape<value = float[1] {3}>(s) d = Mul(c, zero) y = Add(x, d)"


def graph(body, output="float[b, 4, t] y", opset=17):
    header = f'<ir_version: 9, opset_import: ["" : {opset}]> g'
    return parse(f"{header} (float[b, 4, t] z) => ({output}) <{CONSTANTS}> {{ x = Abs(z) {body} }}")


# fmt: off
FIRES = [
    Case(no_op_zeros, "zeros", graph(f"{MADE} y = Add(x, c)")),
    Case(no_op_zeros, "zeros added first", graph(f"{MADE} y = Add(c, x)")),
    Case(no_op_zeros, "without a value, which is then 0", graph("s = Shape(x) c = ConstantOfShape(s) y = Add(x, c)")),
    Case(no_op_zeros, "zeros that are spread", graph("s = Shape(x) c = Expand(zero, s) y = Add(x, c)")),
    Case(no_op_zeros, "zeros that others read", graph(f"{MADE} y = Add(x, c)", "float[b, 4, t] y, float[b, 4, t] c")),
    Case(scaled_full, "numbers times zero, as baddbmm has it", graph(SCALED)),
    Case(scaled_full, "times what has an axis", graph(SCALED.replace("zero", "three"))),
    Case(scaled_full, "a number that is spread", graph(f"{SPREAD} d = Mul(zero, c) y = Add(x, d)")),
    Case(scaled_full, "infinity times zero, which is no number, so that no output tells anything", check=False,
         model=graph(SCALED.replace("{3}", "{inf}"))),
    Case(cast_full, "zeros", graph(f"{MADE} y = Cast<to = 7>(c)", "int64[b, 4, t] y")),
    Case(cast_full, "truth, which no output of the whole model can tell from another", check="sites", model=graph(
        "s = Shape(x) c = ConstantOfShape<value = int64[1] {2}>(s) y = Cast<to = 9>(c)", "bool[b, 4, t] y")),
    Case(cast_full, "a number that no short float has, which is rounded", graph(
        "s = Shape(x) c = ConstantOfShape<value = double[1] {0.1}>(s) y = Cast<to = 1>(c)")),
    Case(cast_full, "a number that others read too", graph(
        f"{SPREAD} d = Cast<to = 6>(c)", "int32[b, 4, t] d, float[b, 4, t] c")),
    Case(cast_full, "bfloat16, once ConstantOfShape has it", check=False,
         model=graph(f"{MADE} d = Cast<to = 16>(c) y = Cast<to = 1>(d)", opset=20)),
]
NEGATIVES = [
    Case(cast_full, "bfloat16, before ConstantOfShape has it", why="but must be",
         model=graph(f"{MADE} d = Cast<to = 16>(c) y = Cast<to = 1>(d)")),
    Case(cast_full, "a number that is cut off", why="int64 cannot represent 2.5", model=graph(
        f"{MADE.replace('{0}', '{2.5}')} y = Cast<to = 7>(c)", "int64[b, 4, t] y")),
    Case(cast_full, "a number out of range", why="int8 cannot represent 300", model=graph(
        f"{MADE.replace('{0}', '{300}')} y = Cast<to = 3>(c)", "int8[b, 4, t] y")),
    Case(cast_full, "text", why="does not return numbers", model=graph(
        f"{MADE} y = Cast<to = 8>(c)", "string[b, 4, t] y")),
    Case(cast_full, "several numbers", why="more than one number", model=graph(
        "s = Shape(x) c = Expand(some, s) y = Cast<to = 7>(c)", "int64[b, 4, t] y")),
    Case(no_op_zeros, "ones", why="must be zero", model=graph(f"{MADE.replace('{0}', '{1}')} y = Add(x, c)")),
    Case(no_op_zeros, "infinity", why="must be zero", model=graph(f"{MADE.replace('{0}', '{inf}')} y = Add(x, c)")),
    Case(no_op_zeros, "numbers of which some are zero", why="must be zero",
         model=graph("s = Shape(x) c = Expand(some, s) y = Add(x, c)")),
    Case(scaled_full, "numbers of which some are zero", why="must be a single number",
         model=graph("s = Shape(x) c = Expand(some, s) d = Mul(c, two) y = Add(x, d)")),
    Case(scaled_full, "a product of more axes", why="may have more axes",
         model=graph("s = Shape(x) n = Gather(s, one) c = ConstantOfShape(n) d = Mul(c, deep) y = Add(x, d)",
                     "float[b, 4, t] y")),
    Case(no_op_zeros, "more axes", why="the sum has more axes",
         model=graph("s = Shape(x) u = Concat<axis = 0>(one, s) c = ConstantOfShape<value = float[1] {0}>(u) "
                     "y = Add(x, c)", "float[1, b, 4, t] y")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
