"""Casts to integers that are undone, which remain in a quantised graph after its integers become floats."""

from surgeon import Graph, Tensor, rule, searches
from ._scale_zero_point import NAN_CAST_DIFFERS


@rule(search=searches.whole_casts, target="tensorrt", differs=NAN_CAST_DIFFERS)
def redundant_integer_casts(g: Graph, x: Tensor) -> Tensor:
    """Remove a Cast to integers and the Cast back to float32 after it, if the numbers are already integers.

    What: rounded and clipped numbers, optionally moved, cast to an integer dtype that represents all of them, and back.
    TensorRT refuses uint8 inside a network.
    Numerics: none.
    """
    return x
