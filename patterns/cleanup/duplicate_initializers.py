"""Duplicate weights."""

from surgeon import Graph, Tensor, rule, searches


@rule(search=searches.equal_initializers, target="any")
def duplicate_initializers(g: Graph, first: Tensor) -> Tensor:
    """Merge initializers with the same bytes: consumers read the first of them, and the others are removed.

    What: initializers of one graph with equal dtype, shape and bytes.  The first in the file stays, and bodies read it
    too.  Some are never removed: inputs of a graph that a caller may set, outputs, tensors of a quantization annotation
    or training binding, and initializers with a separate doc string or metadata.  Weights are compared in the file
    without loading them.  External data files do not change, but the model no longer refers to the copy.
    Numerics: none.  The values are the same, bit for bit.
    """
    return first
