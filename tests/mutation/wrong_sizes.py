"""Wrong rules on sizes and places that few proofs come by: between the short and the long, one row of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.mutation.planting import INDEX, MASK, SIZE, plant, plant_text, size, tampered

ROWS = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
WINDOW = (
    "{ s = Shape<start = 1, end = 2>(x) l = Squeeze(s) r = Range(none, l, one) a = Unsqueeze(r, first) "
    "b = Unsqueeze(r, second) d = Sub(b, a) k = Less(d, NAME) y = Where(k, x, low) }"
)


def even_above_8(g: Any, n: Any, m: Any) -> Any:
    """An even length above 8."""
    return g.and_(g.equal(g.mod(m, 2), 0), g.greater(m, 8))


def power(g: Any, size: Any, exponent: int) -> Any:
    """Whether a size is above a power of two, which no constant says: proofs try sizes beside constants."""
    two = g.cast(g.add(g.sub(size, size), 2), to=np.float32)
    made = two
    for _ in range(exponent - 1):
        made = g.mul(made, two)
    return g.greater(g.cast(size, to=np.float32), made)


for name, holds in {
    "an even length above 8": even_above_8,
    "one row of more than four columns": lambda g, n, m: g.and_(g.equal(n, 1), g.greater(m, 4)),
    "twice as many rows as columns": lambda g, n, m: g.equal(n, g.mul(m, 2)),
    "half as many rows as columns": lambda g, n, m: g.equal(m, g.mul(n, 2)),
    "a length of 100": lambda g, n, m: g.equal(m, 100),
    "a length of 512": lambda g, n, m: g.equal(m, 512),
    "a length between 128 and 512": lambda g, n, m: g.and_(g.greater(m, 128), g.less(m, 512)),
    "one row more than columns": lambda g, n, m: g.equal(n, g.add(m, 1)),
    "two columns": lambda g, n, m: g.equal(m, 2),
    "three times as many rows as columns": lambda g, n, m: g.equal(n, g.mul(m, 3)),
    "three times as many columns as rows": lambda g, n, m: g.equal(m, g.mul(n, 3)),
    "as many columns as the square of the rows": lambda g, n, m: g.and_(g.equal(m, g.mul(n, n)), g.greater(n, 1)),
    "as many rows as columns, and many": lambda g, n, m: g.and_(g.equal(n, m), power(g, n, 5)),
    "a length between 16 and 32": lambda g, n, m: g.and_(power(g, m, 4), g.not_(power(g, m, 5))),
    "a length between 32 and 64": lambda g, n, m: g.and_(power(g, m, 5), g.not_(power(g, m, 6))),
    "a length between 256 and 512": lambda g, n, m: g.and_(power(g, m, 8), g.not_(power(g, m, 9))),
    "a length above 2048": lambda g, n, m: power(g, m, 11),
    "many rows and many columns": lambda g, n, m: g.and_(power(g, n, 6), power(g, m, 6)),
    "one row of many columns": lambda g, n, m: g.and_(g.equal(n, 1), power(g, m, 6)),
}.items():
    plant(
        SIZE,
        f"wrong for {name}",
        "(float[n, m] x) => (float[n, m] y) { y = Neg(x) }",
        lambda g, x: g.neg(x),
        lambda g, x, holds=holds: tampered(g, g.neg(x), holds(g, size(g, x, 0), size(g, x, 1))),
    )
for window in (300, 512):
    plant_text(
        MASK,
        f"a window of {window} is one wider",
        "(float[b, n, n] x) => (float[b, n, n] y) ",
        WINDOW.replace("NAME", "width"),
        WINDOW.replace("NAME", "wider"),
        none=np.array(0),
        one=np.array(1),
        first=np.array([0]),
        second=np.array([1]),
        low=np.array(-1e30, np.float32),
        width=np.array(window),
        wider=np.array(window + 1),
    )
plant_text(
    INDEX,
    "one row of a table is lost",
    "(int64[n] i) => (float[n, 4] y) ",
    "{ y = Gather(w, i) }",
    "{ y = Gather(v, i) }",
    w=ROWS,
    v=np.where(np.arange(100)[:, None] == 50, 0.0, ROWS).astype(np.float32),
)
plant_text(
    INDEX,
    "indices beyond a depth come again",
    "(int64[n] i) => (float[n, 4] y) ",
    "{ y = OneHot(i, depth, values) }",
    "{ k = Mod(i, depth) y = OneHot(k, depth, values) }",
    depth=np.array(4),
    values=np.array([0, 1], np.float32),
)
