"""Which matched nodes a replacement recreates unchanged: these keep their records, names and positions.

A rule matches some nodes only as context, such as a normalisation after the sum that it rewrites.  Its replacement must
build them too, since it returns their outputs; the file should not show it.  A site may also rely on nodes that another
rule inserted: its proof copies them.
"""

from collections.abc import Iterable, Mapping

from surgeon.connected_components import reachable
from surgeon.ir.constants import ConstantValue
from surgeon.ir.equivalence import are_equal_constants, attribute_key, key_of_attributes
from surgeon.ir.mutations import listed_in, put
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import IDENTITY_OPS
from surgeon.ops.traversal import GRAPHS, without_absent_end
from surgeon.rules.matching.match import Match
from surgeon.rules.replacing.replacement import LARGE, Replacement, ReplacementNode, TensorRef

MAX_NODES = 64  # maximum number of nodes that a proof copies; beyond it, the sites are proved together


def producing_nodes(scope: Scope, names: Iterable[str], inner: set[str], own: Iterable[Node] = ()) -> list[Node]:
    """The new nodes that produce these tensors, back to tensors of the source and of the `own` nodes.

    inner: the tensors that the source lacks.
    """
    known = set(own)

    def made(read: Iterable[str]) -> list[Node]:
        nodes = (scope.producers.get(name) for name in read if name in inner)
        return [node for node in nodes if node is not None and node not in known]

    return list(reachable(made(names), lambda node: made(node.inputs)))


def can_copy(scope: Scope, names: Iterable[str], inner: set[str]) -> bool:
    """Whether proofs can copy the producers of these tensors: few enough nodes, and none with a body."""
    if not all(name in inner and name in scope.producers for name in names):
        return False
    found = producing_nodes(scope, names, inner)
    return len(found) <= MAX_NODES and not any(item.type in GRAPHS for node in found for item in node.proto.attribute)


def recreated_nodes(match: Match, fragment: Replacement) -> dict[int, Node]:
    """For positions among the fragment's nodes, the matched node that is recreated.

    It has the same operator and attributes, defaults included, reads the same tensors or bit-identical constants, and
    has as many outputs.  Outputs of the match keep their names, or get that of a matched Identity.  Never all nodes of
    a match: a rule that recreates its whole match is an error that is reported elsewhere.
    """
    ops = {node.op for node in match.nodes}
    if not any(made.qualified in ops for made in fragment.nodes):
        return {}
    named: dict[TensorRef, str] = {}
    for name, ref in zip(match.outputs, fragment.outputs, strict=True):
        named.setdefault(ref, name)
    outputs = {ref: name for ref, name in named.items() if ref.kind == "inner"}
    named = {**outputs, TensorRef("empty"): ""}
    found: dict[int, Node] = {}
    free = list(match.nodes)
    for place, made in enumerate(fragment.nodes):
        named.update((ref, match.tensor(ref.key)) for ref in made.inputs if ref.kind == "capture")
        for node in free:
            if node.op == made.qualified and _is_same(match, fragment, node, made=made, named=named, outputs=outputs):
                found[place] = node
                free.remove(node)
                named = {**dict(zip(made.makes, node.outputs, strict=False)), **named}
                break
    return found if free else {}


def _is_same(
    match: Match,
    fragment: Replacement,
    node: Node,
    made: ReplacementNode,
    named: Mapping[TensorRef, str],
    outputs: Mapping[TensorRef, str],
) -> bool:
    inputs, read = without_absent_end(node.inputs), made.inputs
    while read and read[-1].kind == "empty":
        read = read[:-1]
    if len(inputs) != len(read) or len(without_absent_end(node.outputs)) != len(made.outputs):
        return False
    copies = {(item.inputs[0], item.outputs[0]) for item in match.nodes if item.op in IDENTITY_OPS}
    for ref, name in zip(made.makes, node.outputs, strict=False):
        now = outputs.get(ref)
        if not name or (now != (name if name in match.outputs else None) and (name, now) not in copies):
            return False
    same = all(
        named.get(ref) == name or (ref.kind == "constant" and _is_constant(match, fragment, ref, name))
        for ref, name in zip(read, inputs, strict=True)
    )
    if not same or made.free or node.proto.overload:
        return False
    key = attribute_key(node)
    return key is not None and key == key_of_attributes(made.attributes, made.qualified, node.scope.versions)


def _is_constant(match: Match, fragment: Replacement, ref: TensorRef, name: str) -> bool:
    """Whether a tensor of the model is bit-identical to a constant of the fragment."""
    wanted = fragment.constants[ref.key]
    if wanted.like is not None or wanted.values.nbytes > LARGE:
        return False
    return are_equal_constants(match.index.constants.get(match.scope, name), ConstantValue(wanted.values, 0.0))


def nodes_in_position(match: Match, fragment: Replacement, kept: Mapping[int, Node], slot: int) -> frozenset[int]:
    """The kept nodes, by position, that can stay in place when new nodes go into one slot.

    A node before the slot stays if it reads nothing produced there; one after it, if nothing there reads it.
    """
    stays = {place for place, node in kept.items() if node.slot != slot}
    numbers = {number: place for place, made in enumerate(fragment.nodes) for number in made.outputs}
    while True:
        moved = {place for place in range(len(fragment.nodes)) if place not in stays}
        read = {numbers[ref.key] for place in moved for ref in fragment.nodes[place].reads if ref.kind == "inner"}
        gone = {place for place in stays if kept[place].slot > slot and place in read}
        for place in stays - gone:
            sources = {numbers[ref.key] for ref in fragment.nodes[place].reads if ref.kind == "inner"}
            if kept[place].slot < slot and sources & moved:
                gone.add(place)
        if not gone:
            return frozenset(stays)
        stays -= gone


def put_in_place(scope: Scope, old: Node, new: Node) -> None:
    """Insert a node at the position of the node whose record it has."""
    listed = listed_in(scope, old.slot)
    put(scope, old.slot, listed.index(old) if old in listed else 0, [new])
