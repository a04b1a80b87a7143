"""Finds the opset of a model's nodes if the model declares another one; some exporters do."""

from collections.abc import Iterator, Sequence

import onnx

from surgeon.errors import GraphError, Unavailable
from surgeon.ir.index import Index
from surgeon.ir.scope import DEFAULT_DOMAINS, Node
from surgeon.ops.schemas import history, schema
from surgeon.ops.schemas.node_check import check_node
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.opsets.migration import migrate_node
from surgeon.text import join_first

NAMED = 3  # nodes named in a sentence


def local_functions(index: Index) -> set[tuple[str, str]]:
    """Domain and name of each local function of a model."""
    functions = index.model.skeleton.functions
    return {(item.domain if item.domain not in DEFAULT_DOMAINS else "", item.name) for item in functions}


def fitting_opset(index: Index, newest: int) -> tuple[int, str]:
    """The oldest opset that fits all nodes, and why it is not the declared one; (0, "") if the declared one fits.

    newest: the requested opset; newer ones are not tried.  Raises GraphError if the declared opset lacks an op and no
    opset up to the newest fits all nodes, or if a node that fits both opsets has another meaning in each.
    """
    old, local = index.main.opset or 0, local_functions(index)
    nodes = [
        node
        for scope in index.scopes
        for node in scope.nodes
        if scope.function is None and "::" not in node.op and ("", node.op) not in local
    ]
    misfits = [node for node in nodes if not _fits(node, old)]
    if not misfits:
        return 0, ""
    why = f"the model declares opset {old}, which {_listed(misfits)} {'does' if len(misfits) == 1 else 'do'} not fit"
    found = next((opset for opset in range(old + 1, newest + 1) if all(_fits(node, opset) for node in nodes)), 0)
    if not found and not any(schema("", node.op, old) is None and history("", node.op) for node in misfits):
        return 0, ""  # they are invalid at any opset; the upgrade judges each node by itself
    if not found:
        left = [node for node in nodes if not _fits(node, newest)]
        raise GraphError(f"{why[0].upper()}{why[1:]}. No opset up to {newest} fits all nodes: {_listed(left)}.")
    for node in nodes:
        if node not in misfits:
            step = migrate_node(node, old, found, shapes_of(index))
            if isinstance(step, Unavailable) or not step.empty:
                raise GraphError(
                    f"{why[0].upper()}{why[1:]}. Opset {found} fits all nodes, but {node.op} at {node.label!r} means "
                    f"something else there than at opset {old}, so it is not clear which one the exporter meant."
                )
    return found, why


def declare_opset(skeleton: onnx.ModelProto, opset: int) -> None:
    """Set the declared opset of ai.onnx."""
    for entry in skeleton.opset_import:
        if entry.domain in DEFAULT_DOMAINS:
            entry.version = opset


def _fits(node: Node, opset: int) -> bool:
    """Whether the op, the attributes and the numbers of inputs and outputs of a node fit an opset."""
    version = schema("", node.op, opset)
    return version is not None and (version.deprecated or not check_node(node.proto, opset, lambda _: None))


def _listed(nodes: Sequence[Node]) -> str:
    return join_first(list(_labels(nodes)), NAMED, len(nodes))


def _labels(nodes: Sequence[Node]) -> Iterator[str]:
    yield from (f"{node.op} at {node.label}" for node in nodes)
