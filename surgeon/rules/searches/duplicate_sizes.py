"""Sizes that an earlier node of their scope computes already, perhaps from other tensors."""

from collections.abc import Hashable, Iterator

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import SIZE_OPS
from surgeon.ops.traversal import GRAPHS
from surgeon.rules.matching.pattern import Found, Search
from surgeon.shapes.algebra.polynomials import Expr
from surgeon.shapes.index_shapes import shapes_of, shapes_without_dim_names
from surgeon.shapes.tensor_types import INTEGERS_AND_BOOL


def _repeated_sizes(index: Index, scope: Scope) -> Iterator[Found]:
    """Integers that follow from dynamic dims of an input, and that an earlier node computes from the same dims.

    Binds `first`, the output of the earlier node.  Fixed sizes are left to constant folding.  Sizes that depend on dims
    of two inputs are not equal because the dims have the same name.
    """
    if not scope.has_any(SIZE_OPS):
        return
    types, shapes = shapes_of(index), shapes_without_dim_names(index)
    firsts, repeated = dict[Hashable, Node](), list[tuple[Node, Node]]()
    for node in scope.live_nodes():
        if len(node.outputs) != 1 or any(item.type in GRAPHS for item in node.proto.attribute):
            continue
        (name,) = node.outputs
        dtype = types.dtype(scope, name)
        value = shapes.value(scope, name) if dtype in INTEGERS_AND_BOOL else None
        if value is None or not any(isinstance(item, Expr) for item in value.flat):
            continue
        first = firsts.setdefault((dtype, value.shape, tuple(value.flat)), node)
        if first is not node and index.pin_reason(scope, name) is None:
            repeated.append((node, first))
    for node, first in reversed(repeated):  # removing the last one removes its producers
        if node.alive and first.alive:
            yield Found((node,), node.outputs, {"first": first.outputs[0]}, (first,))


repeated_sizes = Search(_repeated_sizes, "no size is computed twice", last=True)
