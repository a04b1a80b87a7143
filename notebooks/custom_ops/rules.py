"""The placeholder of mylibrary::addandround_op, written with the two operators that custom_ops.cc implements."""

import numpy as np

from surgeon import Graph, Tensor, require, rule


def addandround(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """The node that the exporter writes."""
    return g.op("mylibrary::addandround_op", x, y)


BEYOND = "CustomOpTwo ends at the range of int32"


@rule(patterns=[addandround], differs={"extreme": BEYOND, "non_finite": BEYOND})
def customop(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Write mylibrary::addandround_op as CustomOpOne, CustomOpTwo and a Cast back to float.

    What: round(x + y), halves to even.

    Numerics: exact where |x + y| < 2**31, the range of the int32 between the two; beyond it the result is the end of
    that range.
    """
    require(x.dtype == np.float32 and y.dtype == np.float32, "the library knows float32 alone")
    require(x.shape is not None and x.shape == y.shape, "CustomOpOne does not broadcast")
    total = g.op("test.customop::CustomOpOne", x, y)
    return g.cast(g.op("test.customop::CustomOpTwo", total), to=np.float32)
