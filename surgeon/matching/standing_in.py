"""What is said of a node of another op than the pattern wants, and whether it may stand in while the rest is tried."""

from collections.abc import Callable

from surgeon.indexing.scope import Node, qualified, split_op
from surgeon.matching.advice import other_domain
from surgeon.matching.pattern import Operation, Var
from surgeon.matching.state import State
from surgeon.matching.trace import Finding


def other_op(state: State, operation: Operation, position: int, name: str, take: Callable[[Node], bool]) -> bool:
    """Record that a tensor is made by another op, and let its node stand in for the one that is wanted."""
    node = state.producers.get(name)
    finding = wrong_op(state, operation, name)
    if node is None or not _can_stand_in(node, operation, position, name):
        return state.missed(finding)
    mark = len(state.nodes)
    done = state.excused(finding, lambda: take(node))
    del state.nodes[mark:]
    return done


def wrong_op(state: State, operation: Operation, name: str) -> Finding:
    """A tensor that another op makes, perhaps one of the same name in another domain."""
    wanted = qualified(operation.domain, operation.op)
    what, spot = state.sighting(name)
    node = state.producers.get(name)
    domain, op = split_op(node.op) if node is not None else ("", "")
    if node is None or op != operation.op:
        return Finding("op", operation.where, wanted, what, spot, op=wanted, at=node.label if node else "")
    told = f"wanted {wanted}, found {what} {spot}, whose domain is {domain or 'ai.onnx'}"
    change = other_domain(node, operation.domain)
    return Finding("domain", operation.where, wanted, what, spot, told, change, wanted, node.label)


def _can_stand_in(node: Node, operation: Operation, position: int, name: str) -> bool:
    binds = operation.others is not None or any(isinstance(item, Var) for item in operation.attributes.values())
    fits = len(node.outputs) > position and node.outputs[position] == name
    return fits and not binds and bool(node.inputs) and node.op != "Constant"
