"""The origin of tensors of the source: only constants and sizes, only integers, or data."""

from collections.abc import Callable

from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas import schema
from surgeon.ops.traits.trait_lookup import GATHER_LIKE, RANDOM, TRANSPARENT
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import INTEGERS_AND_BOOL

MAX_NODES = 96  # nodes to follow back from one tensor


class DataDependence:
    """Finds what a tensor is computed from.

    same: gives the tensor that is read in place of another, as another site proves.
    """

    def __init__(self, origin: OriginalModel, shapes: ShapeInference, same: Callable[[Scope, str], str]) -> None:
        self._origin, self._shapes, self._same = origin, shapes, same

    def depends_only_on(self, scope: Scope, name: str, dtypes: frozenset[int] = frozenset()) -> bool:
        """Whether a tensor is computed only from constants and tensors of these dtypes."""
        waiting, seen = [(scope, name)], dict[tuple[int, str], None]()
        known = self._origin.of_data  # for all regions: equal tensors have equal sources
        while waiting:
            scope, name = waiting.pop()
            name = self._same(scope, name)  # otherwise a tensor and its copy would have one key, which ends the search
            home = self._origin.scope(scope).defining_scope(name)
            key = (id(home), name)
            is_far = (self._shapes, dtypes, key) in known
            if not is_far and (key in seen or self._is_fixed(scope, name)):
                continue
            seen[key] = None
            if dtypes and self._shapes.facts(self._origin.scope(scope), name).dtype in dtypes:
                continue
            found = self._origin.producer(scope, name)
            is_far = is_far or len(seen) > MAX_NODES
            if (
                is_far
                or found is None
                or not self.is_provable_node(found[1])
                or (dtypes and found[1].op in GATHER_LIKE)
            ):
                known.add((self._shapes, dtypes, next(iter(seen))))  # so does every tensor computed from it
                return False
            # The first input comes first: it is the data, if any input is.
            waiting += [(found[0], read) for read in reversed(self._origin.inputs(found[1])) if read]
        return True

    def _is_fixed(self, scope: Scope, name: str) -> bool:
        """Whether a tensor is a constant, or sizes that do not depend on a dynamic dim."""
        home = self._origin.scope(scope)
        if self._origin.constants.is_constant(home, name):
            return True
        value = self._shapes.value(home, name) if self._shapes.facts(home, name).dtype in INTEGERS_AND_BOOL else None
        return value is not None and all(isinstance(item, int) for item in value.flat)

    def is_provable_node(self, node: Node) -> bool:
        """Whether a node can be part of the models of a region: known, not random, and without bodies."""
        domain, op = split_op(node.op)
        known = schema(domain, op, None)
        return known is not None and node.op not in RANDOM.difference(TRANSPARENT) and not self._origin.bodies(node)
