"""Weights that are there twice."""

from surgeon import Graph, Tensor, rule, searches


@rule(search=searches.equal_initializers, target="any")
def duplicate_initializers(g: Graph, first: Tensor) -> Tensor:
    """Let readers of initializers that hold the same bytes read the first of them, and drop the others.

    What: initializers of one graph with equal dtype, shape and bytes; the first in the file stays, and bodies that read
    another read it too.  Never a graph's input that a caller may set, an output, what a quantization annotation or a
    training binding names, or one with a doc string or metadata of its own.  Weights are compared in the file, not
    loaded.  External data files stay as they are: nothing in the model points to the copy any more.
    Numerics: none; the values are the same, bit for bit.
    """
    return first
