"""Wrong rules that are wrong for rows in some order, of some kind of numbers, or of a magnitude that is seldom met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.mutation.planting import EDGE, MAGNITUDE, plant, plant_text, tampered

ROWS = "(float[n, 8] x) => (float[n, 8] y) { y = Neg(x) }"
LAST = np.array([1])


def steps(g: Any, x: Any) -> Any:
    """From each number of a row to the next."""
    behind, before = (g.slice(x, np.array([begin]), np.array([end]), LAST) for begin, end in ((1, 8), (0, 7)))
    return g.sub(behind, before)


def is_one_hot(g: Any, x: Any) -> Any:
    """Zeros but for a one."""
    return g.and_(g.equal(g.reduce_sum(x, LAST), 1.0), g.equal(g.reduce_sum_square(x, LAST), 1.0))


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "rows that rise": lambda g, x: g.greater(g.reduce_min(steps(g, x), LAST), 0.0),
    "rows that fall": lambda g, x: g.less(g.reduce_max(steps(g, x), LAST), 0.0),
    "rows of zeros but for a one": is_one_hot,
    "rows of parts of one": lambda g, x: g.less(g.abs(g.sub(g.reduce_sum(x, LAST), 1.0)), 1e-5),
    "rows with two equal numbers side by side": lambda g, x: g.equal(g.reduce_min(g.abs(steps(g, x)), LAST), 0.0),
    "whole numbers above 10": lambda g, x: g.and_(g.equal(x, g.floor(x)), g.greater(x, 10.0)),
}
for name, holds in KINDS.items():
    plant(
        EDGE,
        f"wrong for {name}",
        ROWS,
        lambda g, x: g.neg(x),
        lambda g, x, holds=holds: tampered(g, g.neg(x), holds(g, x)),
    )
for low, high in ((6.1, 6.9), (14, 15), (18, 20), (90, 94)):
    plant_text(
        MAGNITUDE,
        f"wrong between 2^{low:g} and 2^{high:g}, of which no constant speaks",
        "(float[n, m] x) => (float[n, m] y) ",
        "{ y = Abs(x) }",
        "{ a = Abs(x) l = Log(a) p = Div(l, e) c = Greater(p, low) d = Less(p, high) k = And(c, d) b = Mul(a, h) "
        "y = Where(k, b, a) }",
        e=np.array(np.log(2), np.float32),
        low=np.array(low, np.float32),
        high=np.array(high, np.float32),
        h=np.array(1.5, np.float32),
    )
plant_text(
    EDGE,
    "the sign of a zero that something is divided by is lost",
    "(float[n, m] a, float[n, m] b) => (float[n, m] y) ",
    "{ q = Div(a, b) y = Atan(q) }",
    "{ c = Add(b, z) q = Div(a, c) y = Atan(q) }",
    z=np.array(0, np.float32),
)
