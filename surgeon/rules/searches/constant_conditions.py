"""Known conditions: the taken branch of an If, and the results of Where, And and Or."""

from collections.abc import Callable, Iterator
from itertools import compress

from onnx import FunctionProto, GraphProto, NodeProto

from surgeon.file.protobuf.payloads import size_of
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import BRANCHES
from surgeon.ops.traversal import names_read
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.searches.constant_folding import ConstantFolder
from surgeon.shapes.index_shapes import elements_of
from surgeon.shapes.op_rules.values.symbolic_elements import SymbolicElements

MAX_ELEMENTS = 1 << 24  # maximum number of elements of a branch's weights, which are read
LARGEST = 1 << 16  # maximum size of results on the way to a condition, in bytes
BESIDE = ("condition", "untaken")  # names of the other inputs
Choice = tuple[int, tuple[int, ...]]  # position of the input that is the result, and those of all others


def _decided(
    op: str, choose: Callable[[SymbolicElements, Node], Choice | None]
) -> Callable[[Index, Scope], Iterator[Found]]:
    """A search over the nodes of an op.  choose: the input that is the result and the others; None for other nodes."""

    def find(index: Index, scope: Scope) -> Iterator[Found]:
        elements = elements_of(index)
        for node in list(scope.by_op.get(op, ())):
            choice = choose(elements, node) if node.alive else None
            if choice is not None:
                taken, others = choice
                names = zip(BESIDE, (node.inputs[place] for place in others), strict=False)
                yield Found((node,), node.outputs[:1], {"x": node.inputs[taken], "y": node.outputs[0], **dict(names)})

    return find


def _uniform_bool(elements: SymbolicElements, node: Node, place: int) -> bool | None:
    """The boolean that an input holds everywhere; None if unknown."""
    choice = elements.choice(node.scope, node.inputs[place])
    return bool(choice.inside) if choice is not None and choice.is_uniform else None


def _other_operand(truth: bool) -> Callable[[SymbolicElements, Node], Choice | None]:
    """The other input of a node that has one equal to `truth` everywhere."""

    def choose(elements: SymbolicElements, node: Node) -> Choice | None:
        places = (place for place in (0, 1) if _uniform_bool(elements, node, place) is truth)
        place = next(places, None)
        return None if place is None else (1 - place, (place,))

    return choose


def _selected(elements: SymbolicElements, node: Node) -> Choice | None:
    """The tensor that a Where selects everywhere."""
    truth = _uniform_bool(elements, node, 0)
    return None if truth is None else (1, (0, 2)) if truth else (2, (0, 1))


def _always_true(index: Index, scope: Scope) -> Iterator[Found]:
    """An And with a condition that is always true.  Binds `x`, the other, the `condition`, and `y`, the result."""
    return _decided("And", _other_operand(True))(index, scope)


def _never_true(index: Index, scope: Scope) -> Iterator[Found]:
    """An Or with a condition that is always false.  Binds `x`, the other, the `condition`, and `y`, the result."""
    return _decided("Or", _other_operand(False))(index, scope)


def _one_sided(index: Index, scope: Scope) -> Iterator[Found]:
    """A Where whose `condition` is the same everywhere.  Binds `x` (selected), `untaken`, and `y` (the result)."""
    return _decided("Where", _selected)(index, scope)


always_true = Search(_always_true, "no And has an input that is always true")
never_true = Search(_never_true, "no Or has an input that is always false")
one_sided = Search(_one_sided, "no Where has a condition that is the same for all elements")


def _decided_branches(index: Index, scope: Scope) -> Iterator[Found]:
    """An If whose condition is a constant, or computed only from constants and fixed sizes.

    Binds `body`, the branch as a FunctionProto; `outside`, the outer tensors that it reads; `weights`, the arrays of
    its initializers, which are further inputs of the function; and `used`, whether each output has readers.
    """
    folding: ConstantFolder | None = None
    for node in scope.nodes_of(BRANCHES):
        if not node.alive:
            continue
        condition = index.constants.scalar(scope, node.inputs[0])
        if condition is not None:
            place = _branch(index, node, bool(condition[0]), ())
        else:
            folding = folding or ConstantFolder.of(index, scope, LARGEST)
            value = folding.values.get(node.inputs[0])
            made_by = tuple(folding.makers(node.inputs[0]))
            place = _branch(index, node, bool(value.item()), made_by) if value is not None and value.size == 1 else None
        if place is not None:
            yield place


def _branch(index: Index, node: Node, condition: bool, made_by: tuple[Node, ...]) -> Found | None:
    """The place of an If whose branch is known and small enough to be read.

    made_by: the nodes that compute the condition.
    """
    scope = node.scope
    item = node.attribute("then_branch" if condition else "else_branch")
    if item is None or item.ref_attr_name:
        return None
    body = next((inner for inner in scope.bodies if inner.owner is node and inner.proto == item.g), None)
    if body is None or not isinstance(body.proto, GraphProto) or body.sparse or not is_unmodified(body):
        return None
    weights = [index.constants.array(body, name) for name in body.initializers]
    arrays = [array for array in weights if array is not None]
    if len(arrays) < len(weights) or sum(array.size for array in arrays) > MAX_ELEMENTS:
        return None
    nodes = [index.model.serialize_pieces(inner) for inner in body.proto.node]
    if sum(map(size_of, nodes)) > MAX_ELEMENTS:
        return None
    used = index.used(node)
    outputs = tuple(compress(node.outputs, used))
    if not outputs:
        return None
    outside = _outer_names(body.proto)
    function = FunctionProto(name="branch", domain="surgeon.branch", input=[*outside, *body.initializers])
    function.output.extend(value.name for value in body.proto.output)
    # Constants were cut out of the nodes, also in inner bodies: the copies contain them again.
    function.node.extend(NodeProto.FromString(index.model.serialize(inner)) for inner in body.proto.node)
    bound = {"body": (function,), "outside": VariadicBinding(outside), "weights": (arrays,), "used": (used,)}
    return Found((node,), outputs, bound, made_by)


def is_unmodified(body: Scope) -> bool:
    """Whether no rule has changed a branch, which is taken from the file."""
    kept = all(node.original and node.alive for node in body.nodes)
    return kept and not body.redirected and all(map(is_unmodified, body.bodies))


def _outer_names(graph: GraphProto) -> list[str]:
    """Names that a branch reads from the graphs around it, each once."""
    own = {tensor.name for tensor in graph.initializer}.union(*(node.output for node in graph.node))
    names = dict.fromkeys(name for node in graph.node for name in names_read(node) if name not in own)
    names.update((value.name, None) for value in graph.output if value.name not in own)
    return list(names)


decided_branches = Search(_decided_branches, "no If has a constant condition", replaces=BRANCHES.__contains__)
