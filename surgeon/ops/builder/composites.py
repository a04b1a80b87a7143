"""Composite helpers with several forms: `g.rsqrt(x)` is 1/√x in any spelling of an exporter.

A composite is a function of a graph, built of helpers.  A pattern matches any of its forms; a replacement writes the
first.  Composites nest and their forms multiply, so no rule lists the products.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from surgeon.errors import require

SHARE = 1e-6  # relative tolerance of 1 / the number of elements of a mean, in float32
ROUNDED = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # relative tolerance in less precise dtypes
FLOAT, FLOAT16, DOUBLE, BFLOAT16 = 1, 10, 11, 16  # as TensorProto.DataType has them

_words: dict[str, Callable[..., Any]] = {}


def word(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function of a graph as a composite helper: `g.<its name>(...)`."""
    _words[function.__name__] = function
    return function


def find_composite(name: str) -> Callable[..., Any] | None:
    """The composite helper of this name, or None."""
    return _words.get(name)


def words() -> tuple[str, ...]:
    """The names of all composite helpers."""
    return tuple(_words)


@word
def square(g: Any, x: gs.Tensor) -> Any:
    """x²: Pow by 2, or x times itself."""
    return g.any_of(g.pow(x, 2), g.mul(x, x))


@word
def square_root(g: Any, x: gs.Tensor) -> Any:
    """√x: Sqrt, or Pow by ½."""
    return g.any_of(g.sqrt(x), g.pow(x, 0.5))


@word
def rsqrt(g: Any, x: gs.Tensor) -> Any:
    """1/√x: the reciprocal of a square root, or Pow by −½."""
    root = square_root(g, x)
    return g.any_of(g.div(1.0, root), g.reciprocal(root), g.pow(x, -0.5))


@word
def over_root(g: Any, x: gs.Tensor, v: gs.Tensor) -> Any:
    """x/√v: divided by a square root, or multiplied by its reciprocal."""
    return g.any_of(g.div(x, square_root(g, v)), g.mul(x, rsqrt(g, v)))


def keeps_axes(kept: gs.Tensor, x: gs.Tensor, axes: Sequence[int]) -> None:
    """Reject a reshape that does not restore, with size 1, the axes over which x was reduced."""
    found, given = kept.shape, x.shape
    require(found is not None and given is not None, "the shapes of the reduced tensor and its result must be known")
    gone = {axis % len(given) for axis in axes}
    wanted = [1 if axis in gone else size for axis, size in enumerate(given)]
    require(list(found) == wanted, "the reshape after the reduction must restore exactly the reduced axes, with size 1")


def counts_axes(_: gs.Tensor, number: float, x: gs.Tensor, axes: Sequence[int]) -> None:
    """Reject a number by which a sum over axes of x is divided, unless it is the number of summed elements."""
    count = _count(x, axes)
    require(count == number, f"the sum must be divided by {count}")


def shares_axes(_: gs.Tensor, number: float, x: gs.Tensor, axes: Sequence[int]) -> None:
    """Reject a number by which a sum over axes of x is multiplied, unless it is 1 / the number of summed elements."""
    count = _count(x, axes)
    require(abs(count * number - 1) < SHARE, f"the sum must be divided by {count}")


def counts_root(_: gs.Tensor, number: float, x: gs.Tensor, axes: Sequence[int]) -> None:
    """Reject a number by which x over its length is multiplied, unless it is the root of the number of elements."""
    count = _count(x, axes)
    found = number / math.sqrt(count) if count else math.inf
    require(abs(found - 1) < ROUNDED.get(str(x.dtype), SHARE), f"the norm must be divided by the root of {count}")


def _count(x: gs.Tensor, axes: Sequence[int]) -> int:
    require(x.shape is not None, "the shape of the summed tensor must be known")
    sizes = [x.shape[axis] for axis in axes]
    require(all(isinstance(size, int) for size in sizes), "the sizes of the summed axes must be fixed")
    return math.prod(sizes)


def _put_back(g: Any, flat: Any, x: Any, axes: Any) -> Any:
    """The result of a reduction of x without its axes, reshaped to have these axes with size 1; x has a name."""
    put_back = g.reshape(flat, g.any_tensor())
    reshaped = g.any_of(put_back, g.expand(put_back, g.any_tensor()))
    return g.any_of(g.unsqueeze(flat, axes=axes), g.such_that(reshaped, keeps_axes, x, axes))


def _share(g: Any, total: Any, x: Any, axes: Any) -> Any:
    """A sum over axes of x, divided by the number of summed elements; x has a name."""
    count, share = g.any_number(), g.any_number()
    return g.any_of(
        g.such_that(g.div(total, count), counts_axes, count, x, axes),
        g.such_that(g.mul(total, share), shares_axes, share, x, axes),
    )


@word
def sum_over(g: Any, x: gs.Tensor, axes: Any) -> Any:
    """The sum over axes, which keep size 1; the sum of a half-precision x perhaps in float32."""
    return g.any_of(g.reduce_sum(x, axes=axes, keepdims=1), *_in_float(g, g.reduce_sum, x, axes))


@word
def maximum_over(g: Any, x: gs.Tensor, axes: Any) -> Any:
    """The maximum over axes, which keep size 1; the maximum of a half-precision x perhaps in float32."""
    return g.any_of(g.reduce_max(x, axes=axes, keepdims=1), *_in_float(g, g.reduce_max, x, axes))


def _in_float(g: Any, reduce: Callable[..., Any], x: gs.Tensor, axes: Any) -> list[Any]:
    wide = reduce(g.cast(x, to=FLOAT), axes=axes, keepdims=1)
    return [g.cast(wide, to=dtype) for dtype in (FLOAT16, BFLOAT16)]


@word
def mean_over(g: Any, x: gs.Tensor, axes: Sequence[int]) -> Any:
    """The mean over axes, which keep size 1: one reduction, or a sum divided by the number of elements."""
    x = g.named(x)
    flat = g.reduce_sum(x, axes=axes, keepdims=0)
    total = g.any_of(g.reduce_sum(x, axes=axes, keepdims=1), _put_back(g, flat, x, axes))
    mean = g.reduce_mean(x, axes=axes, keepdims=1)
    return g.any_of(mean, _put_back(g, _flat_mean(g, x, axes), x, axes), _share(g, total, x, axes))


def _flat_mean(g: Any, x: Any, axes: Any) -> Any:
    """The mean over axes, which are removed; x has a name."""
    total = g.reduce_sum(x, axes=axes, keepdims=0)
    return g.any_of(g.reduce_mean(x, axes=axes, keepdims=0), _share(g, total, x, axes))


@word
def mean_last(g: Any, x: gs.Tensor) -> Any:
    """The mean over the last axis, which keeps size 1."""
    return mean_over(g, x, [-1])


@word
def centred(g: Any, x: gs.Tensor, axes: Sequence[int]) -> Any:
    """x minus its mean over axes; the mean perhaps in a wider dtype."""
    return g.sub(x, maybe_narrower(g, mean_over(g, maybe_wider(g, x), axes)))


@word
def mean_of_squares(g: Any, x: gs.Tensor, axes: Sequence[int]) -> Any:
    """The mean of x² over axes, which keep size 1: of squares, or by a reduction that squares."""
    x = g.named(x)
    return g.any_of(mean_over(g, square(g, x), axes), _share(g, g.reduce_sum_square(x, axes=axes, keepdims=1), x, axes))


@word
def variance_over(g: Any, x: gs.Tensor, axes: Sequence[int]) -> Any:
    """The variance over axes, which keep size 1: the mean of (x − mean)², perhaps in a wider dtype.

    Or the mean of x² minus the square of the mean, as flax and jax write it.  Because rounding can make that negative,
    it may be clipped at zero, and its axes may be restored after that.
    """
    wide = g.named(maybe_wider(g, x))
    inner = maybe_wider(g, centred(g, wide, axes))
    squared = g.named(square(g, wide))
    kept = g.sub(mean_of_squares(g, wide, axes), square(g, mean_over(g, wide, axes)))
    flat = g.sub(_flat_mean(g, squared, axes), square(g, _flat_mean(g, wide, axes)))
    put_back = _put_back(g, g.any_of(flat, relu_of(g, flat)), wide, axes)
    return maybe_narrower(g, g.any_of(mean_of_squares(g, inner, axes), kept, relu_of(g, kept), put_back))


@word
def length_over(g: Any, x: gs.Tensor, axes: Any) -> Any:
    """√Σx² over axes, which keep size 1: one reduction, or the root of a sum of squares."""
    x = g.named(x)
    squares = g.any_of(sum_over(g, square(g, x), axes), g.reduce_sum_square(x, axes=axes, keepdims=1))
    return g.any_of(g.reduce_l2(x, axes=axes, keepdims=1), square_root(g, squares))


@word
def over_root_mean_square(g: Any, y: gs.Tensor, x: gs.Tensor, axes: Sequence[int]) -> Any:
    """y / √(mean of x²): by the root of a mean, or √n · y / √Σx² over n elements, in any order."""
    x, number = g.named(x), g.any_number()
    by_length = g.such_that(g.mul(g.div(y, length_over(g, x, axes)), number), counts_root, number, x, axes)
    return g.any_of(over_root(g, y, mean_of_squares(g, x, axes)), by_length)


def is_wider(cast: gs.Tensor, x: gs.Tensor) -> None:
    """Reject a Cast that may change values, and one of float32 to double, because one node computes in float32."""
    require(cast.dtype is not None and x.dtype is not None, "the dtypes before and after a Cast must be known")
    is_double = cast.dtype == "float64" and x.dtype == "float32"
    require(not is_double, "the nodes compute in float64, but one node would compute in float32")
    require(np.promote_types(cast.dtype, x.dtype) == cast.dtype, f"a Cast of {x.dtype} to {cast.dtype} loses precision")


@word
def maybe_wider(g: Any, x: gs.Tensor) -> Any:
    """x, perhaps cast to a float dtype that represents all its values, as at the input of a norm in half precision."""
    x = g.named(x)
    return g.any_of(x, *(g.such_that(g.cast(x, to=dtype), is_wider, x) for dtype in (FLOAT, DOUBLE)))


@word
def maybe_narrower(g: Any, x: gs.Tensor) -> Any:
    """x, perhaps cast to a less precise float dtype, as at the output of a norm in half precision."""
    return g.any_of(x, *(g.cast(x, to=dtype) for dtype in (FLOAT, FLOAT16, BFLOAT16)))


@word
def maybe_like(g: Any, number: Any) -> Any:
    """A constant, perhaps cast to the type of a tensor, as numbers in the bodies of local functions are."""
    if g.helper_opset() is not None:  # a replacement: CastLike may be younger than its opset
        return g.literal(number) if isinstance(number, (int, float)) else number
    return g.any_of(number, g.cast_like(number, g.any_tensor()))


@word
def in_dtype(g: Any, x: gs.Tensor, dtype: Any) -> Any:
    """x in a dtype: cast to it, or unchanged if it already has that dtype."""
    if g.helper_opset() is not None and x.dtype == dtype:
        return x
    cast = g.cast(x, to=dtype)
    return cast if g.helper_opset() is not None else g.any_of(x, cast)


@word
def nan_to_zero(g: Any, x: gs.Tensor) -> Any:
    """x with NaN replaced by 0."""
    return g.where(g.isnan(x), 0.0, x)


@word
def softplus_of(g: Any, x: gs.Tensor) -> Any:
    """log(1 + exp(x)): Softplus, perhaps only up to 20 and x above it (torch.nn.Softplus), or written out."""
    node = g.softplus(x)
    return g.any_of(node, g.where(g.greater(x, 20.0), x, node), g.log(g.add(1.0, g.exp(x))))


@word
def relu_of(g: Any, x: gs.Tensor) -> Any:
    """max(x, 0): Relu, Max, or Clip without an upper bound."""
    return g.any_of(g.relu(x), g.max(x, 0.0), g.clip(x, 0.0, None))


@word
def negative_part(g: Any, x: gs.Tensor) -> Any:
    """min(x, 0): Min, or Clip without a lower bound."""
    return g.any_of(g.min(x, 0.0), g.clip(x, None, 0.0))


@word
def clamp(g: Any, x: gs.Tensor, low: Any, high: Any) -> Any:
    """min(max(x, low), high) with low ≤ high: Clip, or Max and Min in either order; from 0 on also Relu and Min."""
    forms = [g.clip(x, low, high), g.min(g.max(x, low), high), g.max(g.min(x, high), low)]
    if isinstance(low, float) and low == 0:
        forms += [g.min(g.relu(x), high), g.clip(g.relu(x), low, high)]
    return g.any_of(*forms)


@word
def by_sign(g: Any, x: gs.Tensor, above: Any, below: Any) -> Any:
    """Above zero one value, below it another: Where, by any comparison, for values that are equal at zero.

    A half-precision x may be cast to float32 for the comparison, as torch's dynamo exporter does.
    """
    wide = g.any_of(x, g.cast(x, to=FLOAT))
    is_above = g.any_of(g.greater(wide, 0.0), g.greater_or_equal(wide, 0.0), g.not_(g.less(x, 0.0)))
    is_below = g.any_of(g.less(wide, 0.0), g.less_or_equal(wide, 0.0))
    return g.any_of(g.where(is_above, above, below), g.where(is_below, below, above))
