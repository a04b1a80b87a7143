"""Conditions that are the same everywhere, whatever the sizes: And, Or and Where by them decide nothing."""

from collections.abc import Callable, Iterator

from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope
from surgeon.matching.pattern import Found, Search
from surgeon.shapes.elements import Elements
from surgeon.shapes.indexed import elements_of

BESIDE = ("condition", "untaken")  # what the inputs are called that are not handed on
Choice = tuple[int, tuple[int, ...]]  # the place of the input that a node hands on, and those of all others


def _decided(op: str, choose: Callable[[Elements, Node], Choice | None]) -> Callable[[Index, Scope], Iterator[Found]]:
    """What goes over the nodes of an op.  choose: which inputs are handed on and not, None for any other node."""

    def find(index: Index, scope: Scope) -> Iterator[Found]:
        elements = elements_of(index)
        for node in list(scope.by_op.get(op, ())):
            choice = choose(elements, node) if node.alive else None
            if choice is not None:
                taken, others = choice
                names = zip(BESIDE, (node.inputs[place] for place in others), strict=False)
                yield Found((node,), node.outputs[:1], {"x": node.inputs[taken], "y": node.outputs[0], **dict(names)})

    return find


def _truth(elements: Elements, node: Node, place: int) -> bool | None:
    """What an input holds everywhere, None where that is not known."""
    choice = elements.choice(node.scope, node.inputs[place])
    return bool(choice.inside) if choice is not None and choice.is_uniform else None


def _beside(truth: bool) -> Callable[[Elements, Node], Choice | None]:
    """The input beside one that holds a truth everywhere."""

    def choose(elements: Elements, node: Node) -> Choice | None:
        places = (place for place in (0, 1) if _truth(elements, node, place) is truth)
        place = next(places, None)
        return None if place is None else (1 - place, (place,))

    return choose


def _taken(elements: Elements, node: Node) -> Choice | None:
    """The tensor that a Where takes everywhere."""
    truth = _truth(elements, node, 0)
    return None if truth is None else (1, (0, 2)) if truth else (2, (0, 1))


def _always_true(index: Index, scope: Scope) -> Iterator[Found]:
    """And with a condition that always holds.  Binds `x`, the other, the `condition`, and `y`, the result."""
    return _decided("And", _beside(True))(index, scope)


def _never_true(index: Index, scope: Scope) -> Iterator[Found]:
    """Or with a condition that never holds.  Binds `x`, the other, the `condition`, and `y`, the result."""
    return _decided("Or", _beside(False))(index, scope)


def _one_sided(index: Index, scope: Scope) -> Iterator[Found]:
    """Where by a `condition` that is the same everywhere.  Binds `x`, what it takes, `untaken`, and `y`, the result."""
    return _decided("Where", _taken)(index, scope)


always_true = Search(_always_true, "no And has a condition that always holds")
never_true = Search(_never_true, "no Or has a condition that never holds")
one_sided = Search(_one_sided, "no Where has a condition that is the same everywhere")
