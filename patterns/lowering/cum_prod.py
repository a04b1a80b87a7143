"""Cumulative products."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule

LONGEST = 256


class Running(Captures):
    """The input of a CumProd, and its axis."""

    x: Tensor
    axis: Constant
    attributes: dict[str, Any]


def node(g: Graph, m: Running) -> Tensor:
    """CumProd."""
    made: Tensor = g.op(
        "CumProd", m.x, m.axis, **m.attributes
    )  # by its name, because older versions of onnx do not have it
    return made


def by_rows(g: Graph, m: Running, axis: int) -> Tensor:
    """Return the product of one row for each element.  A row has ones in place of the later elements."""
    last = m.x.rank - 1
    order = [*(at for at in range(last + 1) if at != axis), axis]
    x = m.x if axis == last else g.transpose(m.x, perm=order)
    count = g.gather(g.shape(m.x), np.array(axis))
    numbers = g.range(np.array(0), count, np.array(1))
    backwards = g.sub(g.sub(count, np.array(1)), numbers)
    is_reverse = bool(m.attributes.get("reverse"))
    x = g.gather(x, backwards, axis=last) if is_reverse else x  # so that the first factor stays the first
    later, earlier = g.unsqueeze(numbers, np.array([1])), g.unsqueeze(numbers, np.array([0]))
    is_taken = g.greater(later, earlier) if m.attributes.get("exclusive") else g.greater_or_equal(later, earlier)
    rows = g.where(is_taken, g.unsqueeze(x, np.array([-2])), np.array(1, m.x.dtype))
    made = g.reduce_prod(rows, np.array([-1]), keepdims=0)
    made = g.gather(made, backwards, axis=last) if is_reverse else made
    return made if axis == last else g.transpose(made, perm=np.argsort(order).tolist())


@rule(patterns=[node], target="any", lacking=True)
def cum_prod(g: Graph, m: Running) -> Tensor:
    """Write a CumProd as consecutive products, or as products of rows with ones for excluded elements.

    What: products of all elements up to each, inclusive or exclusive, from either end, if the target does not support
    CumProd.  For a dynamic length, each element has a separate row, so the number of elements is the square of the
    length.
    Numerics: none for a fixed length, because the order is the same.  Otherwise rounding only.
    """
    require(m.x.rank is not None and m.axis.values.size == 1, "the rank of x is unknown")
    axis = int(m.axis.values.reshape(-1)[0]) % m.x.rank
    length: Any = m.x.shape[axis]
    require(length != 0, "the axis has no elements")
    require(m.x.dtype is not None, "the dtype of x is unknown")
    if not isinstance(length, int):
        require(
            m.x.dtype.kind not in "iu", "the length is dynamic, and ReduceProd of integers may not wrap on overflow"
        )
        return by_rows(g, m, axis)
    require(length <= LONGEST, f"expected at most {LONGEST} elements, or a dynamic length, found {length}")
    parts = [g.slice(m.x, [place], [place + 1], [axis]) for place in range(length)]
    if m.attributes.get("reverse"):
        parts.reverse()
    if m.attributes.get("exclusive"):
        ones = g.expand(g.literal(np.array(1, m.x.dtype)), g.shape(parts[0]))
        parts = [ones, *parts[:-1]]
    made = parts[:1]
    for part in parts[1:]:
        made.append(g.mul(made[-1], part))
    if m.attributes.get("reverse"):
        made.reverse()
    return g.concat(*made, axis=axis)
