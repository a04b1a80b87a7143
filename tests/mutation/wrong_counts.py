"""Wrong rules on sizes, counts and places to begin that are given from outside of the region, and on lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.mutation.planting import INDEX, MASK, SIZE, plant_text

END, FIRST, SECOND, NONE = np.array([1 << 62]), np.array([0]), np.array([1]), np.array(0)


def given(name: str, ports: str, right: str, wrong: str, **constants: Any) -> None:
    """Plant one of which a size, a count or a place to begin comes from outside."""
    plant_text(SIZE, name, f"({ports}) => (float[a, b] y) ", right, wrong, **constants)


given(
    "where a Slice begins is lost",
    "float[n, m] x, int64[1] s",
    "{ y = Slice(x, s, e, k) }",
    "{ y = Slice(x, z, e, k) }",
    e=END,
    k=SECOND,
    z=FIRST,
)
given(
    "a Slice never begins from the end",
    "float[n, m] x, int64[1] s",
    "{ y = Slice(x, s, e, k) }",
    "{ q = Abs(s) y = Slice(x, q, e, k) }",
    e=END,
    k=SECOND,
)
given(
    "both ends are padded alike",
    "float[n, m] x, int64[4] p",
    "{ y = Pad(x, p) }",
    "{ q = Gather(p, i) y = Pad(x, q) }",
    i=np.array([2, 3, 0, 1]),
)
given(
    "repeats of the other axis",
    "float[n, m] x, int64[2] p",
    "{ y = Tile(x, p) }",
    "{ q = Gather(p, i) y = Tile(x, q) }",
    i=np.array([1, 0]),
)
given(
    "the largest two, however many",
    "float[n, 9] x, int64[1] k",
    "{ y, i = TopK(x, k) }",
    "{ y, i = TopK(x, two) }",
    two=SECOND * 2,
)
given("a diagonal that is given is the main one", "float[n, m] x, int64 k", "{ y = Trilu(x, k) }", "{ y = Trilu(x) }")
given(
    "the axis that is given is the first",
    "float[n, m] x, int64[1] k",
    "{ y = ReduceSum(x, k) }",
    "{ y = ReduceSum(x, z) }",
    z=FIRST,
)
given(
    "a shape that is given is a column",
    "float[n, m] x, int64[2] p",
    "{ y = Reshape(x, p) }",
    "{ y = Reshape(x, q) }",
    q=np.array([-1, 1]),
)
plant_text(
    INDEX,
    "a range begins at 0",
    "(int64 n, int64 m) => (int64[k] y) ",
    "{ y = Range(n, m, one) }",
    "{ d = Sub(m, n) y = Range(z, d, one) }",
    one=np.array(1),
    z=NONE,
)
plant_text(
    MASK,
    "no length is 0",
    "(int64[b] l, float[b, m] x) => (float[b, m] y) ",
    "{ s = Shape<start = 1>(x) q = Squeeze(s) r = Range(o, q, one) u = Unsqueeze(l, k) t = Less(r, u) "
    "y = Where(t, x, z) }",
    "{ s = Shape<start = 1>(x) q = Squeeze(s) r = Range(o, q, one) h = Max(l, one) u = Unsqueeze(h, k) t = Less(r, u) "
    "y = Where(t, x, z) }",
    o=NONE,
    one=np.array(1),
    k=SECOND,
    z=np.array(0, np.float32),
)
plant_text(
    MASK,
    "what a mask hides is multiplied by 0",
    "(bool[m] keep, float[n, m] x) => (float[n, m] y) ",
    "{ y = Where(keep, x, z) }",
    "{ f = Cast<to = 1>(keep) y = Mul(x, f) }",
    z=np.array(0, np.float32),
)
CACHED = (
    "(float[batch, seq, 32] q, float[batch, seq, 16] k, float[batch, seq, 16] v, float[batch, 2, past, 8] keys, "
    "float[batch, 2, past, 8] values, int32[batch] before, int32 total) => (float[batch, seq, 32] y) "
)
for window, wrong in ((3, -1), (4, 5)):
    sides = (
        f"{{ y, c, d = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, local_window_size = {each}>"
        "(q, k, v, keys, values, before, total) }"
        for each in (window, wrong)
    )
    plant_text(MASK, f"a window of {window} over a cache becomes {wrong}", CACHED, *sides)
