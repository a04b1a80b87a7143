"""Products of all that stands before, one after the other."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule

LONGEST = 256


class Running(Captures):
    """What is multiplied, and along which axis."""

    x: Tensor
    axis: Constant
    attributes: dict[str, Any]


def node(g: Graph, m: Running) -> Tensor:
    """CumProd."""
    made: Tensor = g.op("CumProd", m.x, m.axis, **m.attributes)  # by its name, which an older onnx does not know
    return made


def by_rows(g: Graph, m: Running, axis: int) -> Tensor:
    """A row for each element, of those that are multiplied up to it, and ones."""
    last = m.x.rank - 1
    order = [*(at for at in range(last + 1) if at != axis), axis]
    x = m.x if axis == last else g.transpose(m.x, perm=order)
    count = g.gather(g.shape(m.x), np.array(axis))
    numbers = g.range(np.array(0), count, np.array(1))
    backwards = g.sub(g.sub(count, np.array(1)), numbers)
    is_reverse = bool(m.attributes.get("reverse"))
    x = g.gather(x, backwards, axis=last) if is_reverse else x  # so that what is multiplied first stays the first
    later, earlier = g.unsqueeze(numbers, np.array([1])), g.unsqueeze(numbers, np.array([0]))
    is_taken = g.greater(later, earlier) if m.attributes.get("exclusive") else g.greater_or_equal(later, earlier)
    rows = g.where(is_taken, g.unsqueeze(x, np.array([-2])), np.array(1, m.x.dtype))
    made = g.reduce_prod(rows, np.array([-1]), keepdims=0)
    made = g.gather(made, backwards, axis=last) if is_reverse else made
    return made if axis == last else g.transpose(made, perm=np.argsort(order).tolist())


@rule(patterns=[node], target="any", lacking=True)
def cum_prod(g: Graph, m: Running) -> Tensor:
    """Write a CumProd as products one after the other, or as products of rows in which ones stand for what is left out.

    What: products of all elements up to each, with or without it, from either end, where the target has no CumProd.
    Where the length is free, each has a row of its own: as many numbers as the length times itself.
    Numerics: none where the length is fixed, as the order is that of the op; else rounding only.
    """
    require(m.x.rank is not None and m.axis.values.size == 1, "the rank of x is unknown")
    axis = int(m.axis.values.reshape(-1)[0]) % m.x.rank
    length: Any = m.x.shape[axis]
    require(length != 0, "there are no elements")
    require(m.x.dtype is not None, "the dtype of x is unknown")
    if not isinstance(length, int):
        require(m.x.dtype.kind not in "iu", "its length is free, and ReduceProd of integers that overflow may not wrap")
        return by_rows(g, m, axis)
    require(length <= LONGEST, f"there are {length} elements; it is for up to {LONGEST}, or a length that is free")
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
