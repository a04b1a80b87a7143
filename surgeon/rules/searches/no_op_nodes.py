"""Nodes that change no result: they have no readers, or their arithmetic is exactly neutral."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from onnx import FunctionProto

from surgeon.ir.constants import CONSTANT_OPS, Constants
from surgeon.ir.divisors import divides
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, qualified_name, split_op
from surgeon.ops.schemas import knows_domain
from surgeon.ops.traits.trait_lookup import COMMUTATIVE, IDENTITY_OPS, OP_TRAITS
from surgeon.ops.traversal import GRAPHS, all_nodes
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.replacing.insertion_point import can_redirect
from surgeon.text import and_more

NEUTRAL = {op.name: op.algebra.neutral for op in OP_TRAITS.values() if op.algebra.neutral is not None}
PLACES = {name: (1, 0) if name in COMMUTATIVE else (1,) for name in NEUTRAL}  # positions of the constant


def _neutral_arithmetic(index: Index, scope: Scope, *, of_one: bool = True) -> Iterator[Found]:
    """Products and quotients with 1, sums and differences with 0; 1e-12 is not 0.

    A sum of floats stays if it is a divisor: adding 0 turns -0 into 0, which changes the sign of the quotient.  Binds
    `x`, the `constant`, and `y`, the result.  of_one: with constants of one element; else of several.
    """
    producers, found = scope.producers, list[tuple[Node, int]]()
    held = partial(_is_float, index.constants, scope, of_one=of_one)
    for op, number in NEUTRAL.items():
        for node in scope.by_op.get(op, ()):
            for place in PLACES[op] if node.alive and len(node.inputs) == 2 else ():
                name = node.inputs[place]
                if name in producers and producers[name].op not in CONSTANT_OPS:
                    continue
                if (is_float := held(name, number)) is not None:
                    if not (is_float and number == 0 and _makes_a_divisor(node, scope, place)):
                        found.append((node, place))
                    break
    for node, place in sorted(found, key=lambda item: item[0].slot):
        if node.alive:
            yield _found(node, place)


def _is_float(constants: Constants, scope: Scope, name: str, number: float, *, of_one: bool) -> bool | None:
    """Whether a constant of one or of several elements is of floats; None if it is not the number everywhere."""
    if of_one:
        known = constants.scalar(scope, name)
        return known[3] if known is not None and known[0] == number else None
    held = constants.get(scope, name)
    is_number = held is not None and held.array.size > 1 and np.all(held.array == number)
    return held.array.dtype.kind not in "iu" if held is not None and is_number else None


def _makes_a_divisor(node: Node, scope: Scope, place: int) -> bool:
    """Whether a sum, or the operand that would replace it, is a divisor of another node."""
    return node.op in COMMUTATIVE and any(divides(scope, name) for name in (node.outputs[0], node.inputs[1 - place]))


neutral_arithmetic = Search(_neutral_arithmetic, "nothing is multiplied or divided by 1, and nothing added to 0")


def _neutral_tensors(index: Index, scope: Scope) -> Iterator[Found]:
    """Products and quotients with several ones, sums and differences with zeros, that no rule takes as weights."""
    return _neutral_arithmetic(index, scope, of_one=False)


neutral_tensors = Search(_neutral_tensors, "no tensor of ones is a factor or divisor, no zeros an addend", last=True)


def _found(node: Node, place: int) -> Found:
    y = node.outputs[0]
    return Found((node,), (y,), {"x": node.inputs[1 - place], "constant": node.inputs[place], "y": y})


def _unread_nodes(index: Index, scope: Scope) -> Iterator[Found]:
    """Nodes none of whose outputs is read, an output of the graph or named elsewhere; the last first.

    Producers that only they read are removed too.  A node of an unknown domain stays, as does one with a body or a
    local function that contains such a node: it may have side effects.
    """
    bodies = {qualified_name(item.domain, item.name): item for item in index.model.skeleton.functions}
    for node in reversed(scope.dead_nodes()):
        if node.alive and not _may_do_more(node, bodies):
            yield Found((node,), (), {})


def _left(index: Index, scope: Scope) -> str | None:
    """The nodes that have no readers and stay; None if there are none."""
    left = scope.dead_nodes()
    if not left:
        return None
    which = f"{left[0].label!r}{and_more(len(left) - 1)} {'is' if len(left) == 1 else 'are'}"
    return f"{which} not read, but an op that surgeon does not know may have side effects"


def _may_do_more(node: Node, bodies: dict[str, FunctionProto]) -> bool:
    """Whether a node is of an unknown domain, or contains one that is.  bodies: the local functions."""
    return any(not _is_known(op, bodies, ()) for op in (node.op, *_inner(node)))


def _inner(node: Node) -> Iterator[str]:
    """The ops of the nodes in the bodies of a node."""
    if node.scope.bodies:
        yield from (qualified_name(item.domain, item.op_type) for item in all_nodes([node.proto]))


def _is_known(op: str, bodies: dict[str, FunctionProto], calling: tuple[str, ...]) -> bool:
    """Whether an op only computes its outputs, as ops of known domains do; a local function if its nodes do."""
    body = bodies.get(op)
    if body is None:
        return knows_domain(split_op(op)[0])
    inner = {qualified_name(item.domain, item.op_type) for item in all_nodes(body.node)}
    return op not in calling and all(_is_known(item, bodies, (*calling, op)) for item in inner)


unread_nodes = Search(_unread_nodes, "the outputs of every node are read", left=_left)


def _copied_outputs(index: Index, scope: Scope) -> Iterator[Found]:
    """A node, and an Identity that gives its result a name which must stay, while the result's own name need not.

    Binds `tensors`, the inputs of the node that are there, and `places`: for each input the number of its tensor or
    None.
    """
    for node in scope.nodes_of(IDENTITY_OPS):
        maker = scope.producers.get(node.inputs[0]) if node.alive else None
        if maker is None or not all(maker.outputs) or maker.proto.overload:
            continue
        if any(item.type in GRAPHS for item in maker.proto.attribute):
            continue
        x, y, reason = node.inputs[0], node.outputs[0], partial(index.pin_reason, scope)
        if reason(x) is None and reason(y) is not None and can_redirect(scope, x, y):
            numbers = iter(range(len(maker.inputs)))
            tensors = VariadicBinding(filter(None, maker.inputs))
            bound = {"tensors": tensors, "places": ([next(numbers) if name else None for name in maker.inputs],)}
            others = [name for name in maker.outputs if name and (name != x or len(set(scope.readers(x))) > 1)]
            yield Found((maker, node), (y, *filter(scope.is_needed, others)), bound)


copied_outputs = Search(_copied_outputs, "no Identity gives the result of a node a name that must stay", last=True)
