"""Initializers that are equal to an earlier one of their graph, found without loading any."""

from collections.abc import Iterator

from surgeon.file.tensors.content_equality import DuplicateFinder, TensorContents
from surgeon.ir.index import Index
from surgeon.ir.scope import Scope
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.rules.matching.pattern import Found, Search


def _equal_initializers(index: Index, scope: Scope) -> Iterator[Found]:
    """Initializers with the dtype, shape and bytes of an earlier one in the same graph; both have readers.

    Binds `first`: the one that stays.  Their doc strings and metadata must be equal too.  One that must keep its name
    is found too, and refused later with the reason.  A tensor that a kernel overwrites is not shared.
    """
    contents = index.cached_analysis(TensorContents, lambda: TensorContents(index.model))
    firsts = DuplicateFinder(contents)
    apart = _overwritten(index)
    tensors = ((name, tensor) for name, tensor in scope.initializers.items() if name and name not in apart)
    read = [(name, tensor) for name, tensor in tensors if scope.is_read(name)]
    stay = {name for name, _ in read if name in scope.protected or index.is_overridable(scope, name)}
    try:
        for name, tensor in sorted(read, key=lambda item: item[0] in stay) if stay else read:
            first = firsts.first(tensor)
            if first is not tensor:
                yield Found((), (name,), {"first": first.name})
    finally:
        contents.close()


def _overwritten(index: Index) -> set[str]:
    """Names of inputs that kernels may overwrite, such as running means in training, in any scope."""
    by_op = (item for scope in index.scopes for item in scope.by_op.items())
    slots = ((nodes, slot) for op, nodes in by_op for slot in traits_of(op).data.overwritten)
    writing = ((node, slot) for nodes, slot in slots for node in nodes if node.alive and len(node.outputs) > 1)
    return {name for node, slot in writing for name in node.inputs[slot : slot + 1]}


equal_initializers = Search(
    _equal_initializers, "no two initializers that can be shared have the same bytes", last=True
)
