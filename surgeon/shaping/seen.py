"""The shapes of a model that is being rewritten, evaluated on demand and kept with its index."""

from surgeon.indexing.index import Index
from surgeon.indexing.origin import Origin
from surgeon.shaping.shapes import Shapes


def shapes_of(index: Index) -> Shapes:
    """Facts of the tensors of the source.

    They hold whatever was rewritten since: a tensor keeps its value under its name.  Tensors that rules made are
    unknown.
    """
    found = index.notes.get(Shapes)
    if not isinstance(found, Shapes):
        found = index.notes[Shapes] = Shapes(Origin(index))
    return found
