"""How many numbers the sums of a region have: the order in which they are added up is a kernel's own."""

from collections.abc import Iterator
from functools import partial

from surgeon.indexing.scope import Node
from surgeon.ops.records import likened, record
from surgeon.sites.cut import Cut
from surgeon.sites.experiment import Shape, Sum


def sums(cut: Cut) -> Iterator[Sum]:
    """The sums that the original nodes take, where their shapes are known."""
    for node in cut.before:
        yield from _sums(cut, node)


def picks_by_products(cut: Cut) -> bool:
    """Whether the original nodes take a softmax, and multiply matrices that are both computed: scores of attention."""
    if any(likened(node.op).product == "attention" for node in cut.before):
        return True
    return any(likened(node.op).softmax for node in cut.before) and any(map(partial(_computes_both, cut), cut.before))


def _computes_both(cut: Cut, node: Node) -> bool:
    """Whether a node multiplies two matrices, neither of them a constant."""
    scope = cut.origin.scope(node.scope)
    slots = likened(node.op).factors or ()
    return bool(slots) and not any(cut.origin.constants.is_constant(scope, node.inputs[slot]) for slot in slots)


def _sums(cut: Cut, node: Node) -> Iterator[Sum]:
    """The sums that one node takes."""
    known = record(node.op)
    if known.reads_places and known.weight is not None:
        weight = _shape(cut, node, node.inputs[known.weight])
        if weight is not None:
            yield Sum(weight[1:])  # [M, C/group, ...]: each output adds up all but the first axis
    if known.reduces != "sum" and known.norm is None:
        return
    given, made = (_shape(cut, node, name) for name in (node.inputs[0], node.outputs[0]))
    if given is None or made is None:
        return
    if known.norm is None:
        yield Sum(given, made)
        return
    first = known.norm
    if isinstance(first, str):
        axis = node.attribute(first)
        first = -1 if axis is None else axis.i
    yield Sum(given[first:])


def _shape(cut: Cut, node: Node, name: str) -> Shape | None:
    return cut.shapes.facts(cut.origin.scope(node.scope), name).shape
