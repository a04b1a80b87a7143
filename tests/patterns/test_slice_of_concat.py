"""Joined tensors: what is taken from them, or left out of them, what does not match and why."""

import pytest
from surgeon.patterns.cleanup.slice_of_concat import empty_concat_inputs, slice_of_concat

from surgeon.testing import Case, check_fires, check_spares, parse


def graph(start, end, axis=-1, inputs="float[n, 3] a, float[n, 3] b, float[n, 4] c", joined="a, b, c"):
    header = '<ir_version: 10, opset_import: ["" : 17]> g'
    constants = f"<int64[1] start = {{{start}}}, int64[1] end = {{{end}}}, int64[1] axis = {{{axis}}}>"
    body = f"j = Concat<axis = 1>({joined}) p = Slice(j, start, end, axis) y = Relu(p) z = Neg(j)"
    return parse(f"{header} ({inputs}) => (float[k, l] y, float[k, m] z) {constants} {{ {body} }}")


def of_parts(*sizes, axis=-1):
    """A Concat of tensors of these sizes along its axis."""
    names = [f"p{place}" for place in range(len(sizes))]
    inputs = ", ".join(f"float[n, {size}] {name}" for size, name in zip(sizes, names, strict=True))
    return parse(f"({inputs}) => (float[n, m] y) {{ j = Concat<axis = {axis}>({', '.join(names)}) y = Relu(j) }}")


FIRES = [
    Case(empty_concat_inputs, "nothing behind", of_parts(8, 0)),
    Case(empty_concat_inputs, "nothing before and behind", of_parts(0, 8, 0, axis=1)),
    Case(empty_concat_inputs, "nothing between", of_parts(8, 0, "w")),
    Case(slice_of_concat, "one of three", graph(3, 6)),
    Case(slice_of_concat, "the last, to the end", graph(6, 2**63 - 1)),
    Case(slice_of_concat, "two of three", graph(0, 6, 1)),
    Case(slice_of_concat, "free sizes", graph(3, 2**63 - 1, inputs="float[n, 3] a, float[n, w] b", joined="a, b")),
]
NEGATIVES = [
    Case(empty_concat_inputs, "what may have elements", of_parts(8, "w"), why="known to be empty"),
    Case(empty_concat_inputs, "nothing at all", of_parts(0, 0), why="known to be empty"),
    Case(empty_concat_inputs, "along another axis", of_parts(0, 0, axis=0), why="known to be empty"),
    Case(slice_of_concat, "a part of one", graph(3, 5), why="must end at the end"),
    Case(slice_of_concat, "from the middle on", graph(4, 6), why="must start at the start"),
    Case(slice_of_concat, "along another axis", graph(0, 3, 0), why="along the same axis"),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """Each site is proved."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Each miss says why."""
    check_spares(case)
