"""Tensors that equal nodes compute from equal inputs: the matcher takes them for one, and so may a proof."""

from collections.abc import Callable, Collection, Sequence

from surgeon.ir.constants import ConstantValue
from surgeon.ir.equivalence import DEPTH, are_equal, is_deterministic
from surgeon.ir.original_model import OriginalModel, TensorAddress
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import RESHAPE_OPS, TRANSPARENT

Key = tuple[int, str]  # a tensor of the source: the scope that makes it, by id, and its name
Tensor = tuple[Scope, str]


def source_before_reshapes(origin: OriginalModel, scope: Scope, name: str) -> Tensor:
    """The tensor with the same elements in the same order before reshapes; itself if no reshape produces it."""
    for _ in range(DEPTH):
        found = origin.producer(scope, name)
        if found is None or found[1].op not in RESHAPE_OPS:
            break
        scope, name = found[0], origin.inputs(found[1])[0]
    return scope, name


class ValueEquivalence:
    """Decides whether tensors of the source hold the same values.

    key: the identity of a tensor as a scope sees it.  may_hold: whether a node can be part of a proof.
    """

    def __init__(
        self, origin: OriginalModel, key: Callable[[Scope, str], Key], may_hold: Callable[[Node], bool]
    ) -> None:
        self._origin, self._key, self.is_deterministic = origin, key, may_hold

    def are_equal(self, one: Tensor, other: Tensor) -> bool:
        """Whether two tensors hold the same values in the view of the matcher: equal nodes of equal inputs."""
        return are_equal(self, one, other)

    def source_of(self, tensor: Tensor) -> Tensor:
        """The source of copies and casts: the two are always in one slice."""
        scope, name = tensor
        found = self._origin.producer(scope, name) if name else None
        while found is not None and found[1].op in TRANSPARENT and name == found[1].outputs[0]:
            scope, name = found[0], self._origin.inputs(found[1])[0]
            found = self._origin.producer(scope, name)
        return scope, name

    def key(self, tensor: Tensor) -> Key | str:
        """The identity of a tensor; an omitted input is the same everywhere."""
        return self._key(*tensor) if tensor[1] else ""

    def producer(self, tensor: Tensor) -> tuple[Node, Sequence[Tensor], int] | None:
        """The node that produces a tensor, its inputs, and the index of the tensor among its outputs."""
        found = self._origin.producer(*tensor)
        if found is None:
            return None
        home, node = found
        return node, [(home, name) for name in self._origin.inputs(node)], node.outputs.index(tensor[1])

    def constant(self, tensor: Tensor) -> ConstantValue | None:
        """The value of a tensor of the source, if it is fixed."""
        scope, name = tensor
        return self._origin.constants.get(self._origin.scope(scope), name)


class NodeEquivalence(ValueEquivalence):
    """Decides whether nodes of the source are equal and read equal tensors, and so compute the same to the last bit.

    own: tensors of the region to prove; no other site is assumed for these.  rests: tensors that were assumed to be
    equal to others, as other sites prove.
    """

    def __init__(self, origin: OriginalModel, own: Collection[str]) -> None:
        super().__init__(origin, self._identity, lambda node: is_deterministic(node.op, origin.index.local))
        self._own, self.rests = own, set[TensorAddress]()

    def source_of(self, tensor: Tensor) -> Tensor:
        """The tensor that is read in place of another, as another site proves."""
        scope, name = tensor
        return tensor if name in self._own else (scope, self._origin.substitute(scope, name, self.rests))

    def _identity(self, scope: Scope, name: str) -> Key:
        home = self._origin.scope(scope).defining_scope(name)
        return id(self._origin.scope(scope) if home is None else home), name
