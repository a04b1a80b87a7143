"""Sizes of transposed and reshaped tensors: what is read before, what does not match and why."""

import pytest
from surgeon.patterns.layout.shape_reads import shape_of_merged_axis, shape_of_reshape, shape_of_transpose

from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64 last = {-1}>"
MOVED = "t = Transpose<perm = [0, 2, 1]>(x) s = Shape(t)"


def graph(body, output="int64[1] y, float[a, c, b] t"):
    return parse(f"(float[a, b, c] x) => ({output}) {CONSTANTS} {{ {MOVED} {body} }}")


def split(body, output="int64[1] y, float[a, b, 2, 4] t", target="heads"):
    """The same of an axis that is split in two."""
    constants = CONSTANTS.replace(">", ", int64[4] heads = {0, 0, 2, 4}, int64[4] more = {0, -1, 2, 2}>")
    return parse(f"(float[a, b, 8] x) => ({output}) {constants} {{ t = Reshape(x, {target}) s = Shape(t) {body} }}")


def joined(body, target="1, -1, 4"):
    """Heads that become part of the batch, and a quotient of that."""
    constants = CONSTANTS.replace(">", f", int64[1] five = {{5}}, int64[3] target = {{{target}}}>")
    made = f"t = Reshape(x, target) s = Shape(t) {body}"
    return parse(f"(float[1, a, 5, 4] x) => (int64[1] y, float[1, c, 4] t) {constants} {{ {made} }}")


# fmt: off
FIRES = [
    Case(shape_of_transpose, "a slice", graph("y = Slice(s, one, two, zero)")),
    Case(shape_of_transpose, "an element from the end", graph("y = Gather(s, last)", "int64 y, float[a, c, b] t")),
    Case(shape_of_transpose, "an element with an axis", graph("y = Gather(s, two)")),
    Case(shape_of_transpose, "two elements", sites=2,
         model=graph("y = Gather(s, two) z = Slice(s, zero, one, zero)", "int64[1] y, int64[1] z, float[a, c, b] t")),
    Case(shape_of_transpose, "a slice that tells no axis", graph("y = Slice(s, one, two)")),
    Case(shape_of_transpose, "a shape of one element", graph("y = Shape<start = 1, end = 2>(t)")),
    *(Case(shape_of_transpose, f"a fixed size, {name}", model=parse(
        f"(float[a, 3, 4] x) => (int64[{rank}] y, float[a, 4, 3] t) {CONSTANTS} {{ {MOVED} {body} }}"))
      for name, rank, body in (("sliced", 1, "y = Slice(s, one, two, zero)"), ("gathered", 1, "y = Gather(s, two)"),
                               ("without an axis", 1, "y = Slice(s, two, three)"))),
    Case(shape_of_reshape, "a shape of one element", split("y = Shape<start = 1, end = 2>(t)")),
    Case(shape_of_reshape, "of the first", split("y = Shape<end = 1>(t)")),
    Case(shape_of_reshape, "a size before what is split", split("y = Slice(s, one, two, zero)")),
    Case(shape_of_reshape, "without an axis", split("y = Slice(s, one, two)")),
    Case(shape_of_merged_axis, "rows of which each has five heads",
         joined("q = Slice(s, one, two, zero) y = Div(q, five)")),
    Case(shape_of_merged_axis, "rows and columns", joined("q = Slice(s, one, two, zero) y = Div(q, five)", "2, -1, 2")),
]
NEGATIVES = [
    Case(shape_of_transpose, "two sizes in a slice", graph("y = Slice(s, one, three, zero)", "int64[2] y"),
         why="exactly one size"),
    Case(shape_of_transpose, "two sizes of a shape", graph("y = Shape<start = 1>(t)", "int64[2] y"),
         why="the whole shape is read"),
    Case(shape_of_reshape, "two sizes of a shape", split("y = Shape<start = 0, end = 2>(t)", "int64[2] y"),
         why="exactly one size"),
    Case(shape_of_transpose, "the shape as a whole", graph("y = Neg(s)", "int64[3] y"), why="the whole shape is read"),
    Case(shape_of_reshape, "a size that changes", why="the reshape changes the size",
         model=split("y = Slice(s, one, two, zero)", "int64[1] y, float[a, d, 2, 2] t", "more")),
    Case(shape_of_reshape, "a size of an axis that is new", why="the reshape changes the size",
         model=split("y = Slice(s, two, three, zero)")),
    Case(shape_of_merged_axis, "another number", why="the reshaped tensor has no axis of this size",
         model=joined("q = Slice(s, one, two, zero) y = Div(q, two)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
