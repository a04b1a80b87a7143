"""If by a condition that is fixed in the file: the branch that is taken, as a function of what it reads."""

from collections.abc import Iterator

from onnx import FunctionProto, GraphProto

from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope
from surgeon.matching.pattern import Found, Search
from surgeon.matching.state import Several
from surgeon.ops.walking import free_names
from surgeon.searches.folding import Folding

MOST = 1 << 24  # elements of the weights that a branch holds: they are read
LARGEST = 1 << 16  # bytes of what is computed on the way to a condition


def _decided_branches(index: Index, scope: Scope) -> Iterator[Found]:
    """If whose condition is a constant, or computed from constants and fixed sizes alone.

    Binds `body`, the branch as a FunctionProto; `outside`, the tensors around it that it reads; `weights`, the arrays
    of its initializers, which are further inputs of the function; and `used`, which of its outputs somebody reads.
    """
    folding: Folding | None = None
    for node in list(scope.by_op.get("If", ())):
        if not node.alive:
            continue
        condition = index.constants.scalar(scope, node.inputs[0])
        if condition is not None:
            place = _taken(index, node, bool(condition[0]), ())
        else:
            folding = folding or Folding.of(index, scope, LARGEST)
            value = folding.values.get(node.inputs[0])
            made_by = tuple(folding.makers(node.inputs[0]))
            place = _taken(index, node, bool(value.item()), made_by) if value is not None and value.size == 1 else None
        if place is not None:
            yield place


def _taken(index: Index, node: Node, condition: bool, made_by: tuple[Node, ...]) -> Found | None:
    """The place of an If whose branch is known and small enough to be read.

    made_by: the nodes that compute the condition.
    """
    scope = node.scope
    item = node.attribute("then_branch" if condition else "else_branch")
    if item is None or item.ref_attr_name:
        return None
    body = next((inner for inner in scope.bodies if inner.owner is node and inner.proto == item.g), None)
    if body is None or not isinstance(body.proto, GraphProto) or body.sparse or not is_as_read(body):
        return None
    weights = [index.constants.array(body, name) for name in body.initializers]
    arrays = [array for array in weights if array is not None]
    if len(arrays) < len(weights) or sum(array.size for array in arrays) > MOST:
        return None
    used = [bool(name) and (scope.is_read(name) or index.held(scope, name) is not None) for name in node.outputs]
    outputs = tuple(name for name, is_used in zip(node.outputs, used, strict=True) if is_used)
    if not outputs:
        return None
    outside = _outside(body.proto)
    function = FunctionProto(name="branch", domain="surgeon.branch", input=[*outside, *body.initializers])
    function.output.extend(value.name for value in body.proto.output)
    function.node.extend(body.proto.node)
    bound = {"body": (function,), "outside": Several(outside), "weights": (arrays,), "used": (used,)}
    return Found((node,), outputs, bound, made_by)


def is_as_read(body: Scope) -> bool:
    """Whether no rule has changed anything in a branch: it is taken as the file has it."""
    kept = all(node.original and node.alive for node in body.nodes)
    return kept and not body.redirected and all(map(is_as_read, body.bodies))


def _outside(graph: GraphProto) -> list[str]:
    """What a branch reads of the graphs around it, each name once."""
    own = {tensor.name for tensor in graph.initializer}.union(*(node.output for node in graph.node))
    names = dict.fromkeys(name for node in graph.node for name in free_names(node) if name not in own)
    names.update((value.name, None) for value in graph.output if value.name not in own)
    return list(names)


decided_branches = Search(_decided_branches, "no If has a condition that is fixed in the file")
