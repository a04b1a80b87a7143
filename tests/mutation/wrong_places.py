"""Wrong rules on what decides: masks, indices, whole numbers near their limits, and sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.mutation.planting import INDEX, INTEGER, MASK, SIZE, plant, size, tampered

FREE = "(float[b, s, 4] x) => (float[b, s, 4] y) { y = Relu(x) }"
HIDDEN = (
    "(float[b, n, m] x, bool[b, 1, m] keep) => (float[b, n, m] y) <float low = {LOW}> "
    "{ t = Where(keep, x, low) y = Softmax<axis = -1>(t) }"
)


def hidden(low: float) -> Callable[..., Any]:
    """The softmax of scores in which a mask hides some."""
    return lambda g, x, keep: g.softmax(g.where(keep, x, low), axis=-1)


def seen_between(g: Any, keep: Any) -> Any:
    """A mask without holes: all between the first and the last that counts."""
    one = g.cast(keep, to=6)
    behind = g.greater(g.cum_sum(one, np.array(2)), 0)
    return g.and_(behind, g.greater(g.cum_sum(one, np.array(2), reverse=1), 0))


def summed(low: float) -> Callable[..., Any]:
    """The mask added, as a number, in place of the choice."""
    return lambda g, x, keep: g.softmax(g.add(x, g.mul(g.cast(g.not_(keep), to=1), low)), axis=-1)


plant(
    MASK,
    "holes of a mask filled",
    HIDDEN.replace("LOW", "-1e30"),
    hidden(-1e30),
    lambda g, x, keep: g.softmax(g.where(seen_between(g, keep), x, -1e30), axis=-1),
)
for low in (-1e9, -1e4):
    plant(MASK, f"rows all hidden, {low:g} added", HIDDEN.replace("LOW", str(low)), hidden(low), summed(low))
plant(
    MASK,
    "rows all hidden become zero",
    HIDDEN.replace("LOW", "-1e30"),
    hidden(-1e30),
    lambda g, x, keep: g.mul(g.softmax(g.where(keep, x, -1e30), axis=-1), g.cast(keep, to=1)),
)
plant(
    MASK,
    "only the count of a mask",
    "(float[b, m] x, bool[b, m] keep) => (float[b, m] y) <float z = {0.0}> { y = Where(keep, x, z) }",
    lambda g, x, keep: g.where(keep, x, 0.0),
    lambda g, x, keep: g.where(
        g.less(g.range(0, size(g, x, 1), 1), g.reduce_sum(g.cast(keep, to=7), axes=[1])), x, 0.0
    ),
)
plant(
    MASK,
    "a guard for rows all hidden dropped",
    "(float[b, n, m] x, float[b, 1, m] mask) => (float[b, n, m] y) <float z = {0.0}> "
    "{ a = Add(x, mask) s = Softmax<axis = -1>(a) n1 = IsNaN(s) y = Where(n1, z, s) }",
    lambda g, x, mask: _guarded(g, g.softmax(g.add(x, mask), axis=-1)),
    lambda g, x, mask: g.softmax(g.add(x, mask), axis=-1),
)
plant(
    MASK,
    "a float mask taken for 0 or low",
    "(float[b, n, m] x, float[b, 1, m] mask) => (float[b, n, m] y) { a = Add(x, mask) y = Softmax<axis = -1>(a) }",
    lambda g, x, mask: g.softmax(g.add(x, mask), axis=-1),
    lambda g, x, mask: g.softmax(g.where(g.less(mask, 0.0), -1e30, x), axis=-1),
)
plant(
    MASK,
    "one of two masks taken for low, where it is minus infinity",
    "(float16[b, n, m] x, float16[b, 1, m] mask) => (float16[b, n, m] y) "
    "{ a = Add(x, mask) y = Softmax<axis = -1>(a) }",
    lambda g, x, mask: g.softmax(g.add(x, mask), axis=-1),
    lambda g, x, mask: g.softmax(g.add(x, g.max(mask, np.array(-1e4, np.float16))), axis=-1),
)
plant(
    MASK,
    "a lone condition taken for true",
    "(bool keep, float[n, m] a, float[n, m] b) => (float[n, m] y) { y = Where(keep, a, b) }",
    lambda g, keep, a, b: g.where(keep, a, b),
    lambda g, keep, a, b: g.identity(a),
)
plant(
    MASK,
    "the first key counts always",
    HIDDEN.replace("LOW", "-1e30"),
    hidden(-1e30),
    lambda g, x, keep: g.softmax(g.where(g.or_(keep, g.equal(g.range(0, size(g, x, 2), 1), 0)), x, -1e30), axis=-1),
)


def _guarded(g: Any, soft: Any) -> Any:
    return g.where(g.isnan(soft), 0.0, soft)


GATHERED = "(float[v, 8] t, int64[n] i) => (float[n, 8] y) { y = Gather(t, i) }"
plant(
    INDEX,
    "negative indices become 0",
    GATHERED,
    lambda g, t, i: g.gather(t, i),
    lambda g, t, i: g.gather(t, g.max(i, 0)),
)
plant(
    INDEX,
    "negative indices lost by a comparison",
    GATHERED,
    lambda g, t, i: g.gather(t, i),
    lambda g, t, i: g.matmul(g.cast(g.equal(g.unsqueeze(i, [1]), g.range(0, size(g, t, 0), 1)), to=1), t),
)
plant(
    INDEX,
    "negative indices of a fixed table",
    "(int64[n] i) => (float[n, 4] y) { y = Gather(w, i) }",
    lambda g, w, i: g.gather(w, i),
    lambda g, w, i: g.gather(w, g.abs(i)),
    w=np.arange(400, dtype=np.float32).reshape(100, 4),
)
plant(
    INDEX,
    "OneHot without negatives",
    "(int64[n] i) => (float[n, 10] y) <int64 d = {10}, float[2] v = {0.0, 1.0}> { y = OneHot(i, d, v) }",
    lambda g, i: g.one_hot(i, 10, g.literal(np.array([0, 1], np.float32))),
    lambda g, i: g.cast(g.equal(g.unsqueeze(i, [1]), np.arange(10)), to=1),
)
for place, end in ((999, "last"), (0, "first")):
    plant(
        INDEX,
        f"padding_idx of the table's {end} row",
        "(int64[n] i) => (float[n, 8] y) "
        f"<int64 p = {{{place}}}, float z = {{0.0}}, int64[1] last = {{-1}}> "
        "{ e = Gather(w, i) m = Equal(i, p) k = Unsqueeze(m, last) y = Where(k, z, e) }",
        lambda g, w, i, place=place: g.where(g.unsqueeze(g.equal(i, place), [-1]), 0.0, g.gather(w, i)),
        lambda g, w, i: g.gather(w, i),
        w=np.linspace(1, 2, 8000, dtype=np.float32).reshape(1000, 8),
    )
plant(
    INDEX,
    "a special index inside the table",
    "(int64[n] i) => (float[n, 8] y) "
    "<int64 p = {517}, float z = {0.0}, int64[1] last = {-1}> "
    "{ e = Gather(w, i) m = Equal(i, p) k = Unsqueeze(m, last) y = Where(k, z, e) }",
    lambda g, w, i: g.where(g.unsqueeze(g.equal(i, 517), [-1]), 0.0, g.gather(w, i)),
    lambda g, w, i: g.gather(w, i),
    w=np.linspace(1, 2, 8000, dtype=np.float32).reshape(1000, 8),
)


def of_two(op: str) -> Callable[..., Any]:
    """An op of two tensors."""
    return lambda g, a, b: getattr(g, op.lower())(a, b)


TWO = "(TYPE[n] a, TYPE[n] b) => (TYPE[n] y) { y = OP(a, b) }"
for type_name, number, op in (("int32", 6, "Add"), ("int32", 6, "Mul"), ("int64", 7, "Add"), ("uint32", 12, "Add")):
    plant(
        INTEGER,
        f"{type_name} {op} through float32",
        TWO.replace("TYPE", type_name).replace("OP", op),
        of_two(op),
        lambda g, a, b, op=op, n=number: g.cast(of_two(op)(g, g.cast(a, to=1), g.cast(b, to=1)), to=n),
    )
plant(
    INTEGER,
    "int64 Add through int32",
    TWO.replace("TYPE", "int64").replace("OP", "Add"),
    lambda g, a, b: g.add(a, b),
    lambda g, a, b: g.cast(g.add(g.cast(a, to=6), g.cast(b, to=6)), to=7),
)
plant(
    INTEGER,
    "int32 ReduceSum through float32",
    "(int32[n, m] x) => (int32[n] y) <int64[1] k = {1}> { y = ReduceSum<keepdims = 0>(x, k) }",
    lambda g, x: g.reduce_sum(x, axes=[1], keepdims=0),
    lambda g, x: g.cast(g.reduce_sum(g.cast(x, to=1), axes=[1], keepdims=0), to=6),
)
plant(
    INTEGER,
    "int32 sum that no longer wraps",
    "(int32[n] a, int32[n] b) => (int64[n] y) { c = Add(a, b) y = Cast<to = 7>(c) }",
    lambda g, a, b: g.cast(g.add(a, b), to=7),
    lambda g, a, b: g.add(g.cast(a, to=7), g.cast(b, to=7)),
)
plant(
    INTEGER,
    "uint8 sum that no longer wraps",
    "(uint8[n] a, uint8[n] b) => (float[n] y) { c = Add(a, b) y = Cast<to = 1>(c) }",
    lambda g, a, b: g.cast(g.add(a, b), to=1),
    lambda g, a, b: g.add(g.cast(a, to=1), g.cast(b, to=1)),
)
plant(
    INTEGER,
    "division rounds down",
    "(int32[n] a) => (int32[n] y) <int32 k = {4}> { y = Div(a, k) }",
    lambda g, a: g.div(a, 4),
    lambda g, a: g.cast(g.floor(g.div(g.cast(a, to=11), 4.0)), to=6),
)
plant(
    INTEGER,
    "half of the range of uint8 lost",
    "(uint8[n] a) => (float[n] y) { y = Cast<to = 1>(a) }",
    lambda g, a: g.cast(a, to=1),
    lambda g, a: g.cast(g.cast(a, to=3), to=1),
)

for count in (8, 64, 512):
    plant(
        SIZE,
        f"only the first {count} columns computed",
        "(float[n, m] x) => (float[n, m] y) { y = Relu(x) }",
        lambda g, x: g.relu(x),
        lambda g, x, k=count: g.concat(g.relu(g.slice(x, [0], [k], [1])), g.slice(x, [k], [1 << 40], [1]), axis=1),
    )
    plant(
        SIZE,
        f"only the first {count} rows computed",
        "(float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }",
        lambda g, x: g.relu(x),
        lambda g, x, k=count: g.concat(g.relu(g.slice(x, [0], [k], [0])), g.slice(x, [k], [1 << 40], [0]), axis=0),
    )
for name, holds in {
    "more than one batch with one row": lambda g, b, s: g.and_(g.greater(b, 1), g.equal(s, 1)),
    "one batch with more than one row": lambda g, b, s: g.and_(g.equal(b, 1), g.greater(s, 1)),
    "an even length": lambda g, b, s: g.equal(g.mod(s, 2), 0),
    "an odd length above one": lambda g, b, s: g.and_(g.equal(g.mod(s, 2), 1), g.greater(s, 1)),
    "a length that is no power of two": lambda g, b, s: g.greater(g.mod(16, s), 0),
    "equal sizes": lambda g, b, s: g.and_(g.equal(b, s), g.greater(s, 1)),
    "a length of 8": lambda g, b, s: g.equal(s, 8),
    "a length of 129 or more": lambda g, b, s: g.greater(s, 128),
    "a batch above 8": lambda g, b, s: g.greater(b, 8),
}.items():
    plant(
        SIZE,
        f"wrong for {name}",
        FREE,
        lambda g, x: g.relu(x),
        lambda g, x, holds=holds: tampered(g, g.relu(x), holds(g, size(g, x, 0), size(g, x, 1))),
    )
plant(
    SIZE,
    "wrong beside a constant of the region: sizes above 12",
    "(float[n, m] x) => (float[n, m] y) "
    "<int64[1] a = {0}, int64[1] b = {12}, int64[1] k = {1}, int64[1] e = {1099511627776}> "
    "{ f = Slice(x, a, b, k) s = Slice(x, b, e, k) y = Concat<axis = 1>(f, s) }",
    lambda g, x: g.concat(g.slice(x, [0], [12], [1]), g.slice(x, [12], [1 << 40], [1]), axis=1),
    lambda g, x: tampered(g, g.identity(x), g.greater(size(g, x, 1), 12)),
)
for count, axis in ((2000, 1), (1100, 0)):
    plant(
        SIZE,
        f"nothing beyond {count} along axis {axis}",
        "(float[n, m] x) => (float[n, m] y) { y = Relu(x) }",
        lambda g, x: g.relu(x),
        lambda g, x, k=count, a=axis: g.where(
            g.less(g.unsqueeze(g.range(0, size(g, x, a), 1), [1 - a]), k), g.relu(x), 0.0
        ),
    )
PAST = "(float[b, p, 4] past, float[b, s, 4] x) => (float[b, t, 4] y) { y = Concat<axis = 1>(past, x) }"
plant(
    SIZE,
    "an empty past",
    PAST,
    lambda g, past, x: g.concat(past, x, axis=1),
    lambda g, past, x: tampered(g, g.concat(past, x, axis=1), g.equal(size(g, past, 1), 0)),
)
plant(
    SIZE,
    "a past as long as what follows",
    PAST,
    lambda g, past, x: g.concat(past, x, axis=1),
    lambda g, past, x: tampered(g, g.concat(past, x, axis=1), g.equal(size(g, past, 1), size(g, x, 1))),
)
plant(
    SIZE,
    "the first batch for all",
    "(float[b, s, 4] x) => (float[b, s, 4] y) { y = Relu(x) }",
    lambda g, x: g.relu(x),
    lambda g, x: g.expand(g.relu(g.slice(x, [0], [1], [0])), g.shape(x)),
)
