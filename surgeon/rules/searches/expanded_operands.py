"""Operands that an Expand or Tile repeats, although the node that reads them broadcasts."""

from collections.abc import Iterator

from onnx import FunctionProto, NodeProto, helper

from surgeon.ir.index import Index
from surgeon.ir.scope import Scope
from surgeon.ops.traits.trait_lookup import BROADCASTING, DATA_MOVEMENT, EXPANDING, traits_of
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search


def _expanded_operands(index: Index, scope: Scope) -> Iterator[Found]:
    """An Expand or Tile before a node that broadcasts that input.

    Binds `small` and `whole`, the tensor before and after it; `others`, the other inputs of the node; and
    `body`, the node as a function of `small` and `others`.
    """
    for expand in scope.nodes_of(EXPANDING & DATA_MOVEMENT):
        small, whole = expand.inputs[0], expand.outputs[0]
        for node, slot in list(scope.uses(whole)) if expand.alive else ():
            one_way = slot == 0 and traits_of(node.op).shape.same_type_as_input
            if not node.alive or node.scope is not scope or node.op not in BROADCASTING or one_way:
                continue
            others = VariadicBinding([*node.inputs[:slot], *node.inputs[slot + 1 :]])
            is_shared = len(scope.readers(whole)) > 1 or index.pin_reason(scope, whole) is not None
            body = _with_operand(scope, node.proto, slot)
            bound = {"small": small, "whole": whole, "others": others, "body": (body,)}
            yield Found((node,) if is_shared else (expand, node), node.outputs, bound, (expand,) if is_shared else ())


expanded_operands = Search(_expanded_operands, "no Expand or Tile precedes a node that broadcasts its inputs")


def _with_operand(scope: Scope, node: NodeProto, slot: int) -> FunctionProto:
    """A node as a function of its input in a slot, and of its other inputs."""
    names = [f"other_{place}" for place in range(len(node.input) - 1)]
    made = NodeProto()
    made.CopyFrom(node)
    made.input[:] = [*names[:slot], "small", *names[slot:]]
    return body_of(scope, [made], ["small", *names], list(node.output))


def body_of(scope: Scope, nodes: list[NodeProto], inputs: list[str], outputs: list[str]) -> FunctionProto:
    """Nodes for a scope as a function."""
    versions = [helper.make_opsetid(domain, version) for domain, version in scope.versions.items()]
    return helper.make_function("", "body", inputs=inputs, outputs=outputs, nodes=nodes, opset_imports=versions)
