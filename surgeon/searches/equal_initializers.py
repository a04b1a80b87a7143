"""Initializers that hold what an earlier one of their graph holds, found without loading any."""

from collections.abc import Iterator

from surgeon.file.sameness import Contents, Firsts
from surgeon.indexing.index import Index
from surgeon.indexing.scope import Scope
from surgeon.matching.pattern import Found, Search
from surgeon.ops.records import record


def _equal_initializers(index: Index, scope: Scope) -> Iterator[Found]:
    """Initializers of the dtype, the shape and the bytes of an earlier one in the same graph, both of them read.

    Binds `first`: the one that stays.  What was written about them must be equal too.  One that has to keep its name is
    found where it repeats another, and then refused with the reason; none reads it.  What a kernel writes into is
    nobody else's.
    """
    contents = index.noted(Contents, lambda: Contents(index.model))
    firsts = Firsts(contents)
    read = [(name, tensor) for name, tensor in scope.initializers.items() if name and scope.is_read(name)]
    stay = {name for name, _ in read if name in scope.held or index.is_overridable(scope, name)}
    try:
        for name, tensor in sorted(read, key=lambda item: item[0] in stay) if stay else read:
            first = firsts.first(tensor)
            if first is not tensor and not any(_is_overwritten(scope, one) for one in (name, first.name)):
                yield Found((), (name,), {"first": first.name})
    finally:
        contents.close()


def _is_overwritten(scope: Scope, name: str) -> bool:
    """Whether a node that reads a tensor may write into it, as one in training does its running means."""
    return any(
        len(reader.outputs) > 1 and reader.inputs[slot : slot + 1] == (name,)
        for reader in scope.readers(name)
        for slot in record(reader.op).overwrites
    )


equal_initializers = Search(
    _equal_initializers, "no two initializers that may be shared hold the same bytes", last=True
)
