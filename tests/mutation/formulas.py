"""Pairs of formulas of numbers, masks and indices that are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.mutation.algebra import FLOATS, INTEGERS, PLANE, equal
from tests.mutation.planting import size

# Operand orders.
for op in ("add", "mul", "max", "min"):
    equal(
        f"{op} turned round",
        lambda g, a, b, op=op: getattr(g, op)(a, b),
        lambda g, a, b, op=op: getattr(g, op)(b, a),
        "xx",
        both=False,
    )
for op in ("and_", "or_", "xor"):
    equal(
        f"{op} turned round",
        lambda g, a, b, op=op: getattr(g, op)(a, b),
        lambda g, a, b, op=op: getattr(g, op)(b, a),
        "bb",
        ("bool",),
        gives="bool",
        both=False,
    )
equal(
    "equal turned round", lambda g, a, b: g.equal(a, b), lambda g, a, b: g.equal(b, a), "xx", gives="bool", both=False
)
equal("less turned round", lambda g, a, b: g.less(a, b), lambda g, a, b: g.greater(b, a), "xx", gives="bool")
equal(
    "at most turned round",
    lambda g, a, b: g.less_or_equal(a, b),
    lambda g, a, b: g.greater_or_equal(b, a),
    "xx",
    gives="bool",
)
equal("a sum is a difference", lambda g, a, b: g.add(a, g.neg(b)), lambda g, a, b: g.sub(a, b), "xx")
equal("a choice turned round", lambda g, c, a, b: g.where(c, a, b), lambda g, c, a, b: g.where(g.not_(c), b, a), "bxx")
equal("a sum of three", lambda g, a, b, c: g.sum(a, b, c), lambda g, a, b, c: g.add(g.add(a, b), c), "xxx", FLOATS)
equal("a maximum of three", lambda g, a, b, c: g.max(a, b, c), lambda g, a, b, c: g.max(a, g.max(b, c)), "xxx")
equal("a minimum of three", lambda g, a, b, c: g.min(g.min(a, b), c), lambda g, a, b, c: g.min(c, b, a), "xxx")
equal(
    "three integers in another order",
    lambda g, a, b, c: g.add(g.add(a, b), c),
    lambda g, a, b, c: g.add(a, g.add(c, b)),
    "xxx",
    INTEGERS,
)
equal(
    "an integer factor distributed",
    lambda g, a, b, c: g.mul(a, g.add(b, c)),
    lambda g, a, b, c: g.add(g.mul(a, b), g.mul(a, c)),
    "xxx",
    INTEGERS,
)
# Identities.
equal("plus zero", lambda g, x: g.add(x, 0), lambda g, x: g.identity(x))
equal("times one", lambda g, x: g.mul(x, 1), lambda g, x: g.identity(x))
equal("over one", lambda g, x: g.div(x, 1), lambda g, x: g.identity(x))
equal("to the power of one", lambda g, x: g.pow(x, 1.0), lambda g, x: g.identity(x), dtypes=FLOATS)
equal("two signs", lambda g, x: g.neg(g.neg(x)), lambda g, x: g.identity(x))
equal("times minus one", lambda g, x: g.mul(x, -1), lambda g, x: g.neg(x))
equal("absolute of a negative", lambda g, x: g.abs(g.neg(x)), lambda g, x: g.abs(x))
equal("absolute twice", lambda g, x: g.abs(g.abs(x)), lambda g, x: g.abs(x))
equal("absolute by a maximum", lambda g, x: g.abs(x), lambda g, x: g.max(x, g.neg(x)))
equal(
    "absolute of whole numbers by a choice",
    lambda g, x: g.abs(x),
    lambda g, x: g.where(g.less(x, 0), g.neg(x), x),
    dtypes=INTEGERS,
)
equal("twice by a sum", lambda g, x: g.mul(x, 2), lambda g, x: g.add(x, x))
equal("half by a quotient", lambda g, x: g.mul(x, 0.5), lambda g, x: g.div(x, 2.0), dtypes=FLOATS)
equal(
    "an eighth in two steps",
    lambda g, x: g.mul(x, 0.125),
    lambda g, x: g.mul(g.mul(x, 0.5), 0.25),
    dtypes=("float32", "float64"),
)
equal("not not", lambda g, x: g.not_(g.not_(x)), lambda g, x: g.identity(x), "b", ("bool",), gives="bool")
equal(
    "de Morgan",
    lambda g, a, b: g.not_(g.and_(a, b)),
    lambda g, a, b: g.or_(g.not_(a), g.not_(b)),
    "bb",
    ("bool",),
    gives="bool",
)
equal("exclusive or", lambda g, a, b: g.xor(a, b), lambda g, a, b: g.not_(g.equal(a, b)), "bb", ("bool",), gives="bool")
equal("a choice of what is equal", lambda g, c, a: g.where(c, a, a), lambda g, a: g.identity(a), "bx", both=False)
equal(
    "less of whole numbers",
    lambda g, a, b: g.less(a, b),
    lambda g, a, b: g.not_(g.greater_or_equal(a, b)),
    "xx",
    INTEGERS,
    gives="bool",
)
equal("whole numbers between two", lambda g, x: g.clip(x, -3, 5), lambda g, x: g.min(g.max(x, -3), 5), dtypes=INTEGERS)
equal("rounded whole", lambda g, x: g.floor(g.floor(x)), lambda g, x: g.floor(x), dtypes=FLOATS)
equal("ceil by floor", lambda g, x: g.ceil(x), lambda g, x: g.neg(g.floor(g.neg(x))), dtypes=FLOATS)
equal(
    "there and back in double",
    lambda g, x: g.cast(g.cast(x, to=11), to=1),
    lambda g, x: g.identity(x),
    dtypes=("float32",),
    both=False,
)
equal(
    "there and back in int64",
    lambda g, x: g.cast(g.cast(x, to=7), to=6),
    lambda g, x: g.identity(x),
    dtypes=("int32",),
    both=False,
)
# Activations, written out.
equal("relu", lambda g, x: g.relu(x), lambda g, x: g.max(x, 0.0), dtypes=FLOATS)
equal(
    "leaky relu",
    lambda g, x: g.leaky_relu(x, alpha=0.125),
    lambda g, x: g.where(g.less(x, 0.0), g.mul(x, 0.125), x),
    dtypes=FLOATS,
)
equal("sigmoid", lambda g, x: g.sigmoid(x), lambda g, x: g.div(1.0, g.add(1.0, g.exp(g.neg(x)))), dtypes=FLOATS)
equal("square", lambda g, x: g.mul(x, x), lambda g, x: g.pow(x, 2.0), dtypes=FLOATS)
equal("cube", lambda g, x: g.mul(x, g.mul(x, x)), lambda g, x: g.pow(x, 3.0), dtypes=("float32", "float64"))
equal("reciprocal", lambda g, x: g.reciprocal(x), lambda g, x: g.div(1.0, x), dtypes=FLOATS)
equal(
    "hard sigmoid",
    lambda g, x: g.hard_sigmoid(x, alpha=0.25, beta=0.5),
    lambda g, x: g.clip(g.add(g.mul(x, 0.25), 0.5), 0.0, 1.0),
    dtypes=FLOATS,
)
equal(
    "silu",
    lambda g, x: g.mul(x, g.sigmoid(x)),
    lambda g, x: g.div(x, g.add(1.0, g.exp(g.neg(x)))),
    dtypes=("float32", "float64"),
)
equal(
    "softplus",
    lambda g, x: g.softplus(x),
    lambda g, x: g.add(g.max(x, 0.0), g.log(g.add(1.0, g.exp(g.neg(g.abs(x)))))),
    dtypes=("float32",),
)
equal("softmax", lambda g, x: g.softmax(x, axis=-1), lambda g, x: _softmax(g, x), dtypes=FLOATS, both=False)
equal(
    "softmax, moved",
    lambda g, x: g.softmax(x, axis=-1),
    lambda g, x: g.softmax(g.sub(x, g.reduce_max(x, axes=[-1], keepdims=1)), axis=-1),
    dtypes=FLOATS,
    both=False,
)
equal("a limit by choices", lambda g, x: g.clip(x, -1.0, 2.0), lambda g, x: g.min(g.max(x, -1.0), 2.0), dtypes=FLOATS)
equal(
    "elu by a choice",
    lambda g, x: g.elu(x, alpha=1.5),
    lambda g, x: g.where(g.greater(x, 0.0), x, g.mul(1.5, g.sub(g.exp(x), 1.0))),
    dtypes=("float32", "float64"),
)  # Whole numbers and masks.
equal(
    "a remainder",
    lambda g, x: g.mod(x, 7),
    lambda g, x: g.sub(x, g.mul(g.div(g.sub(x, g.mod(x, 7)), 7), 7)),
    dtypes=INTEGERS,
    both=False,
)
equal(
    "a mask by a product", lambda g, c, x: g.where(c, x, 0), lambda g, c, x: g.mul(x, g.cast(c, to=7)), "bx", ("int64",)
)
equal(
    "a mask as a number",
    lambda g, c: g.cast(c, to=1),
    lambda g, c: g.where(c, 1.0, 0.0),
    "b",
    ("bool",),
    gives="float32",
)
equal("numbers by a mask", lambda g, c, x: g.where(g.not_(c), 0, x), lambda g, c, x: g.where(c, x, 0), "bx")
equal(
    "masks joined",
    lambda g, a, b, x: g.where(a, g.where(b, x, 0), 0),
    lambda g, a, b, x: g.where(g.and_(a, b), x, 0),
    "bbx",
)
equal(
    "a hidden softmax",
    lambda g, c, x: g.softmax(g.where(c, x, -np.inf), axis=-1),
    lambda g, c, x: g.softmax(g.where(g.not_(c), -np.inf, x), axis=-1),
    "bx",
    FLOATS,
)
equal(
    "a hidden softmax by a sum",
    lambda g, c, x: g.softmax(g.where(c, x, -np.inf), axis=-1),
    lambda g, c, x: g.softmax(g.add(g.where(c, x, 0.0), g.where(c, 0.0, -np.inf)), axis=-1),
    "bx",
    ("float32",),
)
equal(
    "looked up twice", lambda g, t, i: g.gather(g.neg(t), i), lambda g, t, i: g.neg(g.gather(t, i)), "xi", FLOATS, PLANE
)
equal(
    "negative indices brought in",
    lambda g, t, i: g.gather(t, i),
    lambda g, t, i: g.gather(t, g.where(g.less(i, 0), g.add(i, size(g, t, 0)), i)),
    "xi",
    FLOATS,
    PLANE,
)
equal(
    "rows by their places",
    lambda g, x: g.gather(x, g.range(0, size(g, x, 0), 1)),
    lambda g, x: g.identity(x),
    both=False,
)
equal("an empty end", lambda g, x: g.slice(x, [0], [1 << 40], [0]), lambda g, x: g.identity(x))
equal("padded by nothing", lambda g, x: g.pad(x, [0, 0, 0, 0]), lambda g, x: g.identity(x), shapes=PLANE, dtypes=FLOATS)


def _softmax(g: Any, x: Any) -> Any:
    powers = g.exp(g.sub(x, g.reduce_max(x, axes=[-1], keepdims=1)))
    return g.div(powers, g.reduce_sum(powers, axes=[-1], keepdims=1))
