"""Nodes that both sides of a region have: their errors are equal on equal inputs."""

from collections.abc import Callable, Hashable

from onnx import ModelProto

from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import guess_node_traits
from surgeon.ops.traversal import bytes_without, nodes_of, subgraphs
from surgeon.proof.proof_case import RegionModels


def have_common_nodes(sides: RegionModels, is_selected: Callable[[OpTraits], bool]) -> bool:
    """Whether the selected nodes of both sides are the same nodes of the same inputs.

    Inputs are the same if they have one name, weights if they have the same bytes.  Nodes inside of bodies and
    functions do not count as common.
    """
    models = (sides.before, sides.after)
    if not any(is_selected(guess_node_traits(node)) for model in models for node in nodes_of(model)):
        return True
    numbers: dict[Hashable, int] = {}
    numbered = [_numbered(model, is_selected, numbers) for model in models]
    return None not in numbered and numbered[0] == numbered[1]


def _numbered(
    model: ModelProto, is_selected: Callable[[OpTraits], bool], numbers: dict[Hashable, int]
) -> set[int] | None:
    """The numbers of the selected nodes, equal for equal computations; None where one lies in a body or function."""

    def number(*content: Hashable) -> int:
        return numbers.setdefault(content, len(numbers))

    known = {value.name: number("input", value.name) for value in model.graph.input}
    known |= {tensor.name: number("weight", bytes_without(tensor, "name")) for tensor in model.graph.initializer}
    selected = set[int]()
    count = 0
    for node in model.graph.node:
        reads = tuple(known[name] if name in known else number("other", name) for name in node.input)
        own = number(id(model), len(known)) if any(subgraphs(node)) else 0  # tensors that a body reads are not followed
        is_one = is_selected(guess_node_traits(node))
        attributes = tuple(sorted(item.SerializeToString(deterministic=True) for item in node.attribute))
        made = number(own, qualified_name(node.domain, node.op_type), node.overload, attributes, reads)
        known.update((name, number(made, place)) for place, name in enumerate(node.output))
        if is_one:
            selected.add(made)
            count += 1
    everywhere = sum(is_selected(guess_node_traits(node)) for node in nodes_of(model))
    return selected if everywhere == count else None
