"""Casts to integers that are undone: what a quantised graph is full of once its integers are floats."""

from surgeon import Graph, Tensor, rule, searches
from ._scale_zero_point import NAN_CAST_DIFFERS


@rule(search=searches.whole_casts, target="tensorrt", differs=NAN_CAST_DIFFERS)
def redundant_integer_casts(g: Graph, x: Tensor) -> Tensor:
    """Drop a Cast to integers and the Cast back to float32 behind it, where the numbers are whole already.

    What: what was rounded and cut off, moved about or not, cast to integers that hold all of it, and back; where it
    was uint8, TensorRT refuses it inside of a network.
    Numerics: none.
    """
    return x
