"""Strided slices of an image as SpaceToDepth: what fires and what does not."""

import pytest
from surgeon.patterns.layout.consecutive_ops import consecutive_slices
from surgeon.patterns.vision.space_to_depth import space_to_depth

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import graph

FAR = 9223372036854775807
STARTS = "int64[2] s0 = {0, 0}, int64[2] s1 = {0, 1}, int64[2] s2 = {1, 0}, int64[2] s3 = {1, 1}"
SETTINGS = f"{STARTS}, int64[2] ends = {{{FAR}, {FAR}}}, int64[2] axes = {{2, 3}}, int64[2] steps = {{2, 2}}"
FROM_END = SETTINGS.replace("{2, 3}", "{-2, -1}").replace(f"{{{FAR}, {FAR}}}", "{8, 6}")
NUMBERS = (("at0", 0), ("at1", 1), ("end", FAR), ("two", 2), ("three", 3))
ONE = ", ".join(f"int64[1] {name} = {{{number}}}" for name, number in NUMBERS)


def slices(order, head="(float[n, 3, 8, 6] x) => (float[n, 12, 4, 3] y)", constants=SETTINGS, axis=1):
    parts = " ".join(f"p{place} = Slice(x, s{place}, ends, axes, steps)" for place in range(4))
    return graph(f"{parts} y = Concat<axis = {axis}>({', '.join(f'p{place}' for place in order)})", head, constants)


FOCUS = " ".join(
    f"r{at} = Slice(x, at{at[0]}, end, two, two) p{at} = Slice(r{at}, at{at[1]}, end, three, two)"
    for at in ("00", "01", "10", "11")
)

# fmt: off
FIRES = [
    Case(space_to_depth, "row by row", slices([0, 1, 2, 3])),
    Case(space_to_depth, "with ends that are sizes", slices([0, 1, 2, 3], constants=FROM_END)),
    Case(space_to_depth, "column by column", slices([0, 2, 1, 3])),
    Case(space_to_depth, "backwards", slices([3, 2, 1, 0])),
    Case(space_to_depth, "row by row, any number of channels",
         model=slices([0, 1, 2, 3], "(float[n, c, 8, 6] x) => (float[n, d, 4, 3] y)")),
    Case([consecutive_slices, space_to_depth], "one axis after the other, as in YOLOv5",
         model=graph(f"{FOCUS} y = Concat<axis = 1>(p00, p10, p01, p11)",
                     "(float[n, 3, 8, 6] x) => (float[n, 12, 4, 3] y)", ONE)),
]
NEGATIVES = [
    Case(space_to_depth, "one pixel twice", slices([0, 1, 1, 3]), why="four pixels of a block"),
    Case(space_to_depth, "along another axis", why="",
         model=slices([0, 1, 2, 3], "(float[n, 3, 8, 6] x) => (float[m, 3, 4, 3] y)", axis=0)),
    Case(space_to_depth, "an odd height, whose slices have two sizes", why="even and fixed",
         model=slices([0, 1, 2, 3], "(float[n, 3, 7, 6] x) => (float[n, 12, h, 3] y)")),
    Case(space_to_depth, "a height that is not fixed", why="even and fixed",
         model=slices([0, 1, 2, 3], "(float[n, 3, h, 6] x) => (float[n, 12, k, 3] y)")),
    Case(space_to_depth, "not to the end", why="to the end of the image",
         model=slices([0, 1, 2, 3], "(float[n, 3, 8, 6] x) => (float[n, 12, 3, 3] y)", FROM_END.replace("{8,", "{6,"))),
    Case(space_to_depth, "channels to sort whose number is not fixed", why="the number of channels is not fixed",
         model=slices([0, 2, 1, 3], "(float[n, c, 8, 6] x) => (float[n, d, 4, 3] y)")),
    Case(space_to_depth, "steps of 3", why="",
         model=slices([0, 1, 2, 3], "(float[n, 3, 9, 6] x) => (float[n, 12, 3, 2] y)",
                      SETTINGS.replace("steps = {2, 2}", "steps = {3, 3}"))),
    Case(space_to_depth, "five axes", why="batch, channel, row, column",
         model=slices([0, 1, 2, 3], "(float[n, 3, 8, 6, 2] x) => (float[n, 12, 4, 3, 2] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
