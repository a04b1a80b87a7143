"""Whether equal input values are ties in a model's sorts and comparisons."""

from surgeon.analysis.decisions.thresholds import columns, input_dtypes, unknown_inputs
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.tensor_types import FLOATS

TIED = (-1.0, 0.5, 2.0)
"""Input values with many ties."""
_FURTHEST = 12  # maximum number of nodes between an input and a sort


def has_exact_ties(index: Index) -> bool:
    """Whether a model sorts float inputs, or compares two of them, and rounding cannot break ties.

    The sorted tensor must be computed elementwise from an input, with equal results for equal elements; the operands of
    a comparison without any rounding.  If another sort may be affected by rounding, the result is False.
    """
    found = False
    for scope in index.scopes:
        dtypes = input_dtypes(scope)
        for node in scope.nodes:
            op = traits_of(node.op)
            if not (op.numerics.is_argsort_like or op.algebra.compares):
                continue
            free = [node.inputs[slot] for slot in unknown_inputs(node) if node.inputs[slot]]
            is_pair = op.algebra.compares and len(free) == 2
            if not free or not (op.numerics.is_argsort_like or is_pair):
                continue
            starts = [_start(scope, name, exact=is_pair) for name in (free if is_pair else free[:1])]
            fed = [start for start in starts if start in dtypes]
            if is_pair and not fed:
                continue
            if len(fed) < len(starts):
                return False
            found = found or all(dtypes[name] in FLOATS for name in fed)
    return found


def _start(scope: Scope, tensor: str, *, exact: bool) -> str:
    """The tensor that this one is computed from elementwise and uniformly; with `exact`, without any rounding."""
    for _ in range(_FURTHEST):
        node = scope.producers.get(tensor)
        before = None if node is None else _before(node, exact=exact)
        if before is None:
            break
        tensor = before
    return tensor


def _before(node: Node, *, exact: bool) -> str | None:
    op = traits_of(node.op)
    free = [slot for slot in unknown_inputs(node) if node.inputs[slot]]
    if len(free) != 1 or node.outputs[0] == "":
        return None
    name = node.inputs[free[0]]
    if op.data.copies_elements or op.shape.is_reshape or op.numerics.reduces == "extremum":
        return name if free[0] == 0 else None
    numbers = [columns(node, slot).size for slot, other in enumerate(node.inputs) if other and slot not in free]
    is_elementwise = (op.shape.same_type_as_input or op.algebra.family or op.dtype.is_cast) and not (
        op.numerics.accumulates or op.numerics.is_softmax or op.numerics.squares or op.numerics.is_argsort_like
    )
    is_plain = op.numerics.norm_axis is None and not op.control.random
    is_alike = is_elementwise and is_plain and all(size == 1 for size in numbers)
    return name if is_alike and (op.numerics.exact or op.dtype.is_cast or not exact) else None
