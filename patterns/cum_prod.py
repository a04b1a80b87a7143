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


@rule(patterns=[node], target="any", lacking=True)
def cum_prod(g: Graph, m: Running) -> Tensor:
    """Write a CumProd of known length as products one after the other, and these as one tensor.

    What: products of all elements up to each, with or without it, from either end, where the target has no CumProd.
    Numerics: none; the order is that of the op.
    """
    require(m.x.rank is not None and m.axis.values.size == 1, "the rank of x is unknown")
    axis = int(m.axis.values.reshape(-1)[0]) % m.x.rank
    length = m.x.shape[axis]
    require(isinstance(length, int) and length > 0, "how many elements there are is not fixed")
    require(length <= LONGEST, f"there are {length} elements; it is for up to {LONGEST}")
    require(m.x.dtype is not None, "the dtype of x is unknown")
    parts = [g.slice(m.x, [place], [place + 1], [axis]) for place in range(length)]
    if m.attributes.get("reverse"):
        parts.reverse()
    if m.attributes.get("exclusive"):
        ones = g.expand(np.array(1, m.x.dtype), g.shape(parts[0]))
        parts = [ones, *parts[:-1]]
    made = parts[:1]
    for part in parts[1:]:
        made.append(g.mul(made[-1], part))
    if m.attributes.get("reverse"):
        made.reverse()
    return g.concat(*made, axis=axis)
