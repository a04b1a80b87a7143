"""Counts, steps and part sizes that a site reads as inputs: values up to and above its literals."""

from typing import Any

import numpy as np
import pytest

from tests.mutation.planting import PLANTED, outcome, plant_text

ROWS = "(float[n, m] x, int64[2] s) => (float[a, b] y) "
WRONG: dict[str, tuple[str, str, str, Any]] = {
    "20 of the largest at most": (
        "(float[n, m] x, int64[1] k) => (float[n, a] y) ",
        "{ y, i = TopK(x, k) }",
        "{ h = Min(k, l) y, i = TopK(x, h) }",
        [20],
    ),
    "9 diagonals above at most": (
        "(float[n, m] x, int64 k) => (float[n, m] y) ",
        "{ y = Trilu(x, k) }",
        "{ h = Min(k, l) y = Trilu(x, h) }",
        9,
    ),
    "6 diagonals below at most": (
        "(float[n, m] x, int64 k) => (float[n, m] y) ",
        "{ y = Trilu(x, k) }",
        "{ h = Max(k, l) y = Trilu(x, h) }",
        -6,
    ),
    "20 classes at most": (
        "(int64[n] i, int64 d) => (float[n, m] y) ",
        "{ y = OneHot(i, d, v) }",
        "{ h = Min(d, l) y = OneHot(i, h, v) }",
        20,
    ),
    "12 copies of a row at most": (
        "(float[1, m] x, int64[2] s) => (float[a, m] y) ",
        "{ y = Expand(x, s) }",
        "{ h = Min(s, l) y = Expand(x, h) }",
        [12, 1000],
    ),
    "repeated 10 times at most": (ROWS, "{ y = Tile(x, s) }", "{ h = Min(s, l) y = Tile(x, h) }", [10, 10]),
    "the second axis is repeated 3 times at most": (
        ROWS,
        "{ y = Tile(x, s) }",
        "{ h = Min(s, l) y = Tile(x, h) }",
        [1000, 3],
    ),
    "no part is empty": (
        "(float[n, 6] x, int64[2] s) => (float[n, a] y, float[n, b] z) ",
        "{ y, z = Split<axis = 1>(x, s) }",
        "{ h = Max(s, l) p = Gather(h, o) q = Sub(six, p) w = Concat<axis = 0>(p, q) y, z = Split<axis = 1>(x, w) }",
        [1, 0],
    ),
    "both parts are alike": (
        "(float[m, 6] x, int64[2] s) => (float[a, 6] y, float[b, 6] z) ",
        "{ y, z = Split(x, s) }",
        "{ t = Sub(s, l) u = Abs(t) w = Add(u, l) z, y = Split(x, w) }",
        [0, 0],
    ),
    "a range of 33 at most": (
        "(int64 k) => (int64[m] y) ",
        "{ y = Range(none, k, one) }",
        "{ h = Min(k, l) y = Range(none, h, one) }",
        33,
    ),
    "9 zeros are put at an end at most": (
        "(float[n] x, int64[2] e) => (float[a] y) ",
        "{ y = Pad(x, e) }",
        "{ h = Min(e, l) y = Pad(x, h) }",
        [9, 9],
    ),
}
NUMBERS: dict[str, Any] = {
    "v": np.array([0, 1], np.float32),
    "o": np.array([0]),
    "six": np.array([6]),
    "none": np.array(0),
    "one": np.array(1),
}


@pytest.mark.parametrize("title", WRONG)
def test_what_is_right_for_small_counts_alone_fails(title: str) -> None:
    ports, right, wrong, bound = WRONG[title]
    plant_text("counts", title, ports, right, wrong, l=np.array(bound), **NUMBERS)
    found, reason = outcome(PLANTED.pop(title))
    assert found == "failed", reason


RIGHT: dict[str, tuple[str, str, str]] = {
    "a bound that the axis has": (
        "(float[n, 9] x, int64[1] k) => (float[n, a] y) ",
        "{ y, i = TopK(x, k) }",
        "{ h = Min(k, nine) y, i = TopK(x, h) }",
    ),
    "parts from the end": (
        "(float[n, 6] x, int64[2] s) => (float[n, a] y, float[n, b] z) ",
        "{ y, z = Split<axis = 1>(x, s) }",
        "{ y, z = Split<axis = -1>(x, s) }",
    ),
    "copies by another op": (
        "(float[1, m] x, int64[1] k) => (float[a, m] y) ",
        "{ s = Concat<axis = 0>(k, unit) y = Tile(x, s) }",
        "{ s = Concat<axis = 0>(k, unit) y = Expand(x, s) }",
    ),
}


@pytest.mark.parametrize("title", RIGHT)
def test_what_is_right_for_all_counts_passes(title: str) -> None:
    plant_text("counts", title, *RIGHT[title], 18, nine=np.array([9]), unit=np.array([1]))
    found, reason = outcome(PLANTED.pop(title))
    assert found == "proved", reason
