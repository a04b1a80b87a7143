"""Pairs of formulas that are equal for all inputs, up to rounding: what rewrites by them makes must not be called wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.mutation.building import Shape

FLOATS = ("float32", "float16", "float64")
INTEGERS = ("int64", "int32")
NUMBERS = (*FLOATS, *INTEGERS)
SHAPES: tuple[Shape, ...] = (("n", "m"), (2, 3, 4), ("b", 5, "s", 4))


@dataclass(frozen=True)
class Pair:
    """Two formulas.  takes: the kind of each input, "x" a number of the dtype, "b" a boolean, "i" an int64.

    gives: the dtype of the result, "" for that of the numbers.
    """

    name: str
    left: Callable[..., Any]
    right: Callable[..., Any]
    takes: str
    dtypes: tuple[str, ...]
    shapes: tuple[Shape, ...]
    gives: str = ""


def pairs() -> Iterator[Pair]:
    """All of them, the other way round too where `both` says so."""
    for name, left, right, takes, dtypes, shapes, gives, both in _TABLE:
        yield Pair(name, left, right, takes, dtypes, shapes, gives)
        if both:
            yield Pair(f"{name}, back", right, left, takes, dtypes, shapes, gives)


_TABLE: list[tuple[str, Any, Any, str, tuple[str, ...], tuple[Shape, ...], str, bool]] = []


def equal(
    name: str, left: Any, right: Any, takes: str = "x", dtypes: tuple[str, ...] = NUMBERS,
    shapes: tuple[Shape, ...] = SHAPES, gives: str = "", both: bool = True,
) -> None:  # fmt: skip
    """Add a pair."""
    _TABLE.append((name, left, right, takes, dtypes, shapes, gives, both))


def _size(g: Any, x: Any, axis: int) -> Any:
    return g.gather(g.shape(x), np.array(axis))


THREE: tuple[Shape, ...] = ((2, 3, 4), ("b", "s", 4), ("b", 3, "t"))
PLANE: tuple[Shape, ...] = (("n", "m"), (3, 5))
SQUARE: tuple[Shape, ...] = ((4, 4), ("b", 4, 4), (2, 3, 4, 4))
ONE: tuple[Shape, ...] = (("n",), (6,))

# Operand orders.
for op in ("add", "mul", "max", "min"):
    equal(f"{op} turned round", lambda g, a, b, op=op: getattr(g, op)(a, b), lambda g, a, b, op=op: getattr(g, op)(b, a),
          "xx", both=False)  # fmt: skip
for op in ("and_", "or_", "xor"):
    equal(f"{op} turned round", lambda g, a, b, op=op: getattr(g, op)(a, b), lambda g, a, b, op=op: getattr(g, op)(b, a),
          "bb", ("bool",), gives="bool", both=False)  # fmt: skip
equal("equal turned round", lambda g, a, b: g.equal(a, b), lambda g, a, b: g.equal(b, a), "xx", gives="bool", both=False)
equal("less turned round", lambda g, a, b: g.less(a, b), lambda g, a, b: g.greater(b, a), "xx", gives="bool")
equal("at most turned round", lambda g, a, b: g.less_or_equal(a, b), lambda g, a, b: g.greater_or_equal(b, a), "xx", gives="bool")
equal("a sum is a difference", lambda g, a, b: g.add(a, g.neg(b)), lambda g, a, b: g.sub(a, b), "xx")
equal("a choice turned round", lambda g, c, a, b: g.where(c, a, b), lambda g, c, a, b: g.where(g.not_(c), b, a), "bxx")
equal("a sum of three", lambda g, a, b, c: g.sum(a, b, c), lambda g, a, b, c: g.add(g.add(a, b), c), "xxx", FLOATS)
equal("a maximum of three", lambda g, a, b, c: g.max(a, b, c), lambda g, a, b, c: g.max(a, g.max(b, c)), "xxx")
equal("a minimum of three", lambda g, a, b, c: g.min(g.min(a, b), c), lambda g, a, b, c: g.min(c, b, a), "xxx")
equal("three integers in another order", lambda g, a, b, c: g.add(g.add(a, b), c), lambda g, a, b, c: g.add(a, g.add(c, b)), "xxx", INTEGERS)
equal("an integer factor distributed", lambda g, a, b, c: g.mul(a, g.add(b, c)), lambda g, a, b, c: g.add(g.mul(a, b), g.mul(a, c)), "xxx", INTEGERS)
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
equal("absolute of whole numbers by a choice", lambda g, x: g.abs(x), lambda g, x: g.where(g.less(x, 0), g.neg(x), x), dtypes=INTEGERS)
equal("twice by a sum", lambda g, x: g.mul(x, 2), lambda g, x: g.add(x, x))
equal("half by a quotient", lambda g, x: g.mul(x, 0.5), lambda g, x: g.div(x, 2.0), dtypes=FLOATS)
equal("an eighth in two steps", lambda g, x: g.mul(x, 0.125), lambda g, x: g.mul(g.mul(x, 0.5), 0.25), dtypes=("float32", "float64"))
equal("not not", lambda g, x: g.not_(g.not_(x)), lambda g, x: g.identity(x), "b", ("bool",), gives="bool")
equal("de Morgan", lambda g, a, b: g.not_(g.and_(a, b)), lambda g, a, b: g.or_(g.not_(a), g.not_(b)), "bb", ("bool",), gives="bool")
equal("exclusive or", lambda g, a, b: g.xor(a, b), lambda g, a, b: g.not_(g.equal(a, b)), "bb", ("bool",), gives="bool")
equal("a choice of what is equal", lambda g, c, a: g.where(c, a, a), lambda g, a: g.identity(a), "bx", both=False)
equal("a product and its quotient", lambda g, x: g.div(g.mul(x, 4), 4), lambda g, x: g.identity(x), dtypes=("float64",), shapes=PLANE, both=False) if False else None
equal("less of whole numbers", lambda g, a, b: g.less(a, b), lambda g, a, b: g.not_(g.greater_or_equal(a, b)), "xx", INTEGERS, gives="bool")
equal("whole numbers between two", lambda g, x: g.clip(x, -3, 5), lambda g, x: g.min(g.max(x, -3), 5), dtypes=INTEGERS)
equal("rounded whole", lambda g, x: g.floor(g.floor(x)), lambda g, x: g.floor(x), dtypes=FLOATS)
equal("ceil by floor", lambda g, x: g.ceil(x), lambda g, x: g.neg(g.floor(g.neg(x))), dtypes=FLOATS)
equal("there and back in double", lambda g, x: g.cast(g.cast(x, to=11), to=1), lambda g, x: g.identity(x), dtypes=("float32",), both=False)
equal("there and back in int64", lambda g, x: g.cast(g.cast(x, to=7), to=6), lambda g, x: g.identity(x), dtypes=("int32",), both=False)
# Activations, written out.
equal("relu", lambda g, x: g.relu(x), lambda g, x: g.max(x, 0.0), dtypes=FLOATS)
equal("relu by a product", lambda g, x: g.relu(x), lambda g, x: g.mul(0.5, g.add(x, g.abs(x))), dtypes=("float32", "float64"), both=False) if False else None
equal("leaky relu", lambda g, x: g.leaky_relu(x, alpha=0.1), lambda g, x: g.where(g.less(x, 0.0), g.mul(x, 0.1), x), dtypes=FLOATS)
equal("sigmoid", lambda g, x: g.sigmoid(x), lambda g, x: g.div(1.0, g.add(1.0, g.exp(g.neg(x)))), dtypes=FLOATS)
equal("tanh by sigmoid", lambda g, x: g.tanh(x), lambda g, x: g.sub(g.mul(2.0, g.sigmoid(g.mul(2.0, x))), 1.0), dtypes=FLOATS, both=False)
equal("square", lambda g, x: g.mul(x, x), lambda g, x: g.pow(x, 2.0), dtypes=FLOATS)
equal("cube", lambda g, x: g.mul(x, g.mul(x, x)), lambda g, x: g.pow(x, 3.0), dtypes=("float32", "float64"))
equal("reciprocal", lambda g, x: g.reciprocal(x), lambda g, x: g.div(1.0, x), dtypes=FLOATS)
equal("hard sigmoid", lambda g, x: g.hard_sigmoid(x, alpha=0.25, beta=0.5), lambda g, x: g.clip(g.add(g.mul(x, 0.25), 0.5), 0.0, 1.0), dtypes=FLOATS)
equal("silu", lambda g, x: g.mul(x, g.sigmoid(x)), lambda g, x: g.div(x, g.add(1.0, g.exp(g.neg(x)))), dtypes=("float32", "float64"))
equal("softplus", lambda g, x: g.softplus(x), lambda g, x: g.add(g.max(x, 0.0), g.log(g.add(1.0, g.exp(g.neg(g.abs(x)))))), dtypes=("float32", "float64"))
equal("softmax", lambda g, x: g.softmax(x, axis=-1), lambda g, x: _softmax(g, x), dtypes=FLOATS, both=False)
equal("softmax, moved", lambda g, x: g.softmax(x, axis=-1), lambda g, x: g.softmax(g.sub(x, g.reduce_max(x, axes=[-1], keepdims=1)), axis=-1),
      dtypes=FLOATS, both=False)  # fmt: skip
equal("a limit by choices", lambda g, x: g.clip(x, -1.0, 2.0), lambda g, x: g.min(g.max(x, -1.0), 2.0), dtypes=FLOATS)
equal("elu by a choice", lambda g, x: g.elu(x, alpha=1.5), lambda g, x: g.where(g.greater(x, 0.0), x, g.mul(1.5, g.sub(g.exp(x), 1.0))),
      dtypes=("float32", "float64"))  # fmt: skip
# Shapes.
equal("two transposes", lambda g, x: g.transpose(g.transpose(x, perm=[1, 2, 0]), perm=[2, 0, 1]), lambda g, x: g.identity(x), shapes=THREE)
equal("transposes joined", lambda g, x: g.transpose(g.transpose(x, perm=[1, 0, 2]), perm=[2, 0, 1]), lambda g, x: g.transpose(x, perm=[2, 1, 0]), shapes=THREE)
equal("an axis put in and out", lambda g, x: g.squeeze(g.unsqueeze(x, [1]), [1]), lambda g, x: g.identity(x))
equal("two axes at once", lambda g, x: g.unsqueeze(g.unsqueeze(x, [0]), [2]), lambda g, x: g.unsqueeze(x, [0, 2]), shapes=PLANE)
equal("flat by a reshape", lambda g, x: g.flatten(x, axis=1), lambda g, x: g.reshape(x, [0, -1]), shapes=((2, 3, 4), ("b", 3, 4)))
equal("reshaped twice", lambda g, x: g.reshape(g.reshape(x, [-1]), [-1, 2]), lambda g, x: g.reshape(x, [-1, 2]), shapes=((2, 3, 4), ("b", "s", 4)))
equal("sliced twice", lambda g, x: g.slice(g.slice(x, [1], [9], [1]), [1], [9], [1]), lambda g, x: g.slice(x, [2], [9], [1]), shapes=THREE)
equal("turned round twice", lambda g, x: _turned(g, _turned(g, x)), lambda g, x: g.identity(x), both=False)
equal("cut and joined", lambda g, x: g.concat(g.slice(x, [0], [2], [-1]), g.slice(x, [2], [1 << 40], [-1]), axis=-1), lambda g, x: g.identity(x))
equal("joined from three", lambda g, a, b, c: g.concat(g.concat(a, b, axis=0), c, axis=0), lambda g, a, b, c: g.concat(a, b, c, axis=0), "xxx")
equal("copies by joining", lambda g, x: g.concat(x, x, axis=-1), lambda g, x: g.tile(x, [1, 2]), shapes=PLANE)
equal("spread by a product", lambda g, x: g.expand(g.unsqueeze(x, [0]), [3, 1, 1]), lambda g, x: g.mul(g.unsqueeze(x, [0]), np.ones((3, 1, 1))), shapes=PLANE, dtypes=FLOATS)
equal("the first column", lambda g, x: g.gather(x, np.array(0), axis=1), lambda g, x: g.squeeze(g.slice(x, [0], [1], [1]), [1]))
equal("the last column", lambda g, x: g.gather(x, np.array(-1), axis=1), lambda g, x: g.squeeze(g.slice(x, [-1], [1 << 40], [1]), [1]))
equal("columns in another order", lambda g, x: g.gather(x, np.array([3, 2, 1, 0]), axis=-1), lambda g, x: _turned(g, x), shapes=((2, 3, 4), ("b", "s", 4)))
equal("the lower half", lambda g, x: g.trilu(x, upper=0), lambda g, x: g.where(_lower(g, x), x, 0), shapes=((4, 4), ("b", 4, 4)))
# Sums.
equal("a sum over two axes", lambda g, x: g.reduce_sum(x, axes=[0, 1], keepdims=1), lambda g, x: g.reduce_sum(g.reduce_sum(x, axes=[0], keepdims=1), axes=[1], keepdims=1))
equal("a maximum over two axes", lambda g, x: g.reduce_max(x, axes=[0, 1], keepdims=0), lambda g, x: g.reduce_max(g.reduce_max(x, axes=[0], keepdims=0), axes=[0], keepdims=0))
equal("a mean over two axes", lambda g, x: g.reduce_mean(x, axes=[1, 2], keepdims=1), lambda g, x: g.reduce_mean(g.reduce_mean(x, axes=[1], keepdims=1), axes=[2], keepdims=1),
      shapes=THREE, dtypes=FLOATS)  # fmt: skip
equal("a mean by a sum", lambda g, x: g.reduce_mean(x, axes=[-1], keepdims=1), lambda g, x: g.div(g.reduce_sum(x, axes=[-1], keepdims=1), 4.0),
      shapes=((2, 3, 4), ("b", "s", 4)), dtypes=FLOATS)  # fmt: skip
equal("a sum by a product", lambda g, x: g.reduce_sum(x, axes=[-1], keepdims=1), lambda g, x: g.matmul(x, np.ones((4, 1))), shapes=((2, 3, 4), ("b", "s", 4)),
      dtypes=("float32", "float64"))  # fmt: skip
equal("a sum of squares", lambda g, x: g.reduce_sum_square(x, axes=[-1], keepdims=1), lambda g, x: g.reduce_sum(g.mul(x, x), axes=[-1], keepdims=1), dtypes=("float32", "float64"))
equal("the length of a row", lambda g, x: g.reduce_l2(x, axes=[-1], keepdims=1), lambda g, x: g.sqrt(g.reduce_sum(g.mul(x, x), axes=[-1], keepdims=1)), dtypes=("float32", "float64"))
equal("a sum of absolutes", lambda g, x: g.reduce_l1(x, axes=[-1], keepdims=1), lambda g, x: g.reduce_sum(g.abs(x), axes=[-1], keepdims=1), dtypes=("float32", "float64"))
equal("a running sum of whole numbers", lambda g, x: g.cum_sum(x, np.array(1)), lambda g, x: _turned(g, g.cum_sum(_turned(g, x, 1), np.array(1), reverse=1), 1), shapes=PLANE, dtypes=INTEGERS)
equal("a sum of sums", lambda g, a, b: g.add(g.reduce_sum(a, axes=[-1], keepdims=1), g.reduce_sum(b, axes=[-1], keepdims=1)),
      lambda g, a, b: g.reduce_sum(g.concat(a, b, axis=-1), axes=[-1], keepdims=1), "xx", dtypes=INTEGERS)  # fmt: skip
# Products.
equal("a transposed product", lambda g, a, b: g.transpose(g.matmul(a, b), perm=[1, 0]), lambda g, a, b: g.matmul(g.transpose(b, perm=[1, 0]), g.transpose(a, perm=[1, 0])), "xx",
      FLOATS, ((4, 4), (3, 3)))  # fmt: skip
equal("gemm", lambda g, a, b, c: g.gemm(a, b, c), lambda g, a, b, c: g.add(g.matmul(a, b), c), "xxx", ("float32", "float64"), ((4, 4), (3, 3)))
equal("a product by einsum", lambda g, a, b: g.matmul(a, b), lambda g, a, b: g.einsum(a, b, equation="...ij,...jk->...ik"), "xx", ("float32", "float64"), SQUARE)
equal("a factor moved in a product", lambda g, a, b: g.mul(g.matmul(a, b), 0.25), lambda g, a, b: g.matmul(g.mul(a, 0.25), b), "xx", ("float32", "float64"), SQUARE)
equal("a scaled product", lambda g, a, b: g.div(g.matmul(a, b), 3.0), lambda g, a, b: g.mul(g.matmul(a, b), 1 / 3), "xx", ("float32", "float64"), SQUARE)
# Whole numbers and masks.
equal("a remainder", lambda g, x: g.mod(x, 7), lambda g, x: g.sub(x, g.mul(g.div(g.sub(x, g.mod(x, 7)), 7), 7)), dtypes=INTEGERS)
equal("a mask by a product", lambda g, c, x: g.where(c, x, 0), lambda g, c, x: g.mul(x, g.cast(c, to=7)), "bx", ("int64",))
equal("a mask as a number", lambda g, c: g.cast(c, to=1), lambda g, c: g.where(c, 1.0, 0.0), "b", ("bool",), gives="float32")
equal("numbers by a mask", lambda g, c, x: g.where(g.not_(c), 0, x), lambda g, c, x: g.where(c, x, 0), "bx")
equal("masks joined", lambda g, a, b, x: g.where(a, g.where(b, x, 0), 0), lambda g, a, b, x: g.where(g.and_(a, b), x, 0), "bbx")
equal("a hidden softmax", lambda g, c, x: g.softmax(g.where(c, x, -np.inf), axis=-1), lambda g, c, x: g.softmax(g.where(g.not_(c), -np.inf, x), axis=-1), "bx", FLOATS)
equal("a hidden softmax by a sum", lambda g, c, x: g.softmax(g.where(c, x, -np.inf), axis=-1), lambda g, c, x: g.softmax(g.add(g.where(c, x, 0.0), g.where(c, 0.0, -np.inf)), axis=-1),
      "bx", FLOATS)  # fmt: skip
equal("looked up twice", lambda g, t, i: g.gather(g.neg(t), i), lambda g, t, i: g.neg(g.gather(t, i)), "xi", FLOATS, PLANE)
equal("negative indices brought in", lambda g, t, i: g.gather(t, i), lambda g, t, i: g.gather(t, g.where(g.less(i, 0), g.add(i, _size(g, t, 0)), i)), "xi", FLOATS, PLANE)
equal("rows by their places", lambda g, x: g.gather(x, g.range(0, _size(g, x, 0), 1)), lambda g, x: g.identity(x), both=False)
equal("an empty end", lambda g, x: g.slice(x, [0], [1 << 40], [0]), lambda g, x: g.identity(x))
equal("padded by nothing", lambda g, x: g.pad(x, [0, 0, 0, 0]), lambda g, x: g.identity(x), shapes=PLANE, dtypes=FLOATS)


def _softmax(g: Any, x: Any) -> Any:
    powers = g.exp(g.sub(x, g.reduce_max(x, axes=[-1], keepdims=1)))
    return g.div(powers, g.reduce_sum(powers, axes=[-1], keepdims=1))


def _turned(g: Any, x: Any, axis: int = -1) -> Any:
    return g.slice(x, [-1], [-(1 << 62)], [axis], [-1])


def _lower(g: Any, x: Any) -> Any:
    rows = g.unsqueeze(g.range(0, _size(g, x, -2), 1), [1])
    return g.greater_or_equal(rows, g.range(0, _size(g, x, -1), 1))
