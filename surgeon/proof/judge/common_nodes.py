"""Nodes that both sides of a region have: their errors are equal on equal inputs."""

from collections.abc import Callable

from onnx import ModelProto

from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ir.structure import Structure
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import node_traits, traits_of
from surgeon.ops.traversal import bytes_without, nodes_of
from surgeon.proof.proof_case import RegionModels


def have_common_nodes(sides: RegionModels, is_selected: Callable[[OpTraits], bool]) -> bool:
    """Whether the selected nodes of both sides are the same nodes of the same inputs.

    Nodes inside of bodies and functions do not count as common.
    """
    models = (sides.before, sides.after)
    if not any(is_selected(node_traits(node)) for model in models for node in nodes_of(model)):
        return True
    structure = Structure()
    found: list[set[int]] = []
    for model in models:
        numbers = computations(model, structure)
        selected = [number for node, number in numbers.items() if is_selected(traits_of(node.op))]
        if len(selected) < sum(is_selected(node_traits(node)) for node in nodes_of(model)):
            return False
        found.append(set(selected))
    return found[0] == found[1]


def computations(model: ModelProto, structure: Structure) -> dict[Node, int]:
    """Numbers of the nodes of the main graph, equal for equal computations.

    Inputs are equal by name, weights by their bytes.  A node with bodies equals no other.
    """
    index, number = Index.over(model), structure.number
    weights = index.main.initializers
    known: dict[str, int] = {}
    found: dict[Node, int] = {}
    for node in index.main.nodes:
        for name in node.inputs:
            if name not in known:
                known[name] = number(("leaf", bytes_without(weights[name], "name") if name in weights else name))
        kind = node if index.bodies(node) else structure.stated(node)
        made = found[node] = number(("node", kind, tuple(map(known.__getitem__, node.inputs))))
        known.update((name, number(("output", made, place))) for place, name in enumerate(node.outputs) if name)
    return found
