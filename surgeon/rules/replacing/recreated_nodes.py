"""Which matched nodes a replacement writes again as they are: these stay, with their records, names and places.

A rule reads some nodes as context alone: a normalisation behind the sum that it writes otherwise.  Its replacement has
to say them all the same, as it returns what they make; nobody is to see that in the file.  A site may rest on nodes
that another rule wrote, too: its proof has copies of them.
"""

from collections.abc import Iterable, Mapping, Sequence

from surgeon.ir.constants import ConstantValue
from surgeon.ir.equivalence import are_equal_constants, said_by, said_in
from surgeon.ir.mutations import listed_in, put
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traversal import GRAPHS
from surgeon.rules.matching.matcher import Match
from surgeon.rules.replacing.replacement import LARGE, Replacement, ReplacementNode, TensorRef

MOST = 64  # nodes that are copied into each proof; where it were more, the sites are proved together


def producing_nodes(scope: Scope, names: Iterable[str], inner: set[str], own: Iterable[Node] = ()) -> list[Node]:
    """The new nodes that make these tensors, as far back as to tensors of the source and of the `own` nodes.

    inner: the tensors that the source has not.
    """
    found: dict[Node, None] = {}
    known, waiting = set(own), list(names)
    while waiting:
        name = waiting.pop()
        node = scope.producers.get(name) if name in inner else None
        if node is not None and node not in known:
            known.add(node)
            found[node] = None
            waiting += node.inputs
    return list(found)


def can_copy(scope: Scope, names: Iterable[str], inner: set[str]) -> bool:
    """Whether proofs can copy what makes these tensors of a scope: not too many nodes, and none with a body."""
    if not all(name in inner and name in scope.producers for name in names):
        return False
    found = producing_nodes(scope, names, inner)
    return len(found) <= MOST and not any(item.type in GRAPHS for node in found for item in node.proto.attribute)


def recreated_nodes(match: Match, fragment: Replacement) -> dict[int, Node]:
    """For places among the fragment's nodes, the matched node that says the same.

    That is: the same operator, the same attributes, defaults included, the same tensors read, or constants equal to
    the last bit, and as many made, of which the match's outputs keep their names.  Never all of a match: a rule that
    writes what it looks for is wrong, and is told so elsewhere.
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
                named.update(zip(made.makes, node.outputs, strict=False))
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
    inputs, read = _short(node.inputs), made.inputs
    while read and read[-1].kind == "empty":
        read = read[:-1]
    if len(inputs) != len(read) or len(_short(node.outputs)) != len(made.outputs):
        return False
    for ref, name in zip(made.makes, node.outputs, strict=False):
        wanted = outputs.get(ref)
        if not name or wanted != (name if name in match.outputs else None):
            return False
    same = all(
        named.get(ref) == name or (ref.kind == "constant" and _is_constant(match, fragment, ref, name))
        for ref, name in zip(read, inputs, strict=True)
    )
    if not same or made.free or node.proto.overload:
        return False
    said = said_by(node)
    return said is not None and said == said_in(made.attributes, made.qualified, node.scope.versions)


def _short(names: Sequence[str]) -> Sequence[str]:
    """Names without those left out at the end."""
    while names and not names[-1]:
        names = names[:-1]
    return names


def _is_constant(match: Match, fragment: Replacement, ref: TensorRef, name: str) -> bool:
    """Whether a tensor of the model is the constant that the fragment wants, to the last bit."""
    wanted = fragment.constants[ref.key]
    if wanted.like is not None or wanted.values.nbytes > LARGE:
        return False
    return are_equal_constants(match.index.constants.get(match.scope, name), ConstantValue(wanted.values, 0.0))


def nodes_in_position(match: Match, fragment: Replacement, kept: Mapping[int, Node], slot: int) -> frozenset[int]:
    """Of the kept nodes those that need not leave their places when what is new goes into one slot; by place.

    One before the slot stays if it reads nothing that is made there; one behind it, if nothing there reads it.
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
    """List a node where the one whose record it has stands."""
    listed = listed_in(scope, old.slot)
    put(scope, old.slot, listed.index(old) if old in listed else 0, [new])
