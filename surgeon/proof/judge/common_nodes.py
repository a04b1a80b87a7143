"""Nodes that both sides of a region have: what they compute of the same inputs errs alike."""

from collections.abc import Callable, Hashable

from onnx import ModelProto

from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import guess_node_traits
from surgeon.ops.traversal import bytes_but, nodes_of, subgraphs
from surgeon.proof.proof_case import RegionModels


def have_common_nodes(minis: RegionModels, is_meant: Callable[[OpTraits], bool]) -> bool:
    """Whether the nodes of both sides whose operators are meant are the same ones, of the same inputs.

    Inputs are the same that have one name, weights that have the same bytes.  Nothing is said of nodes inside of
    bodies and functions.
    """
    models = (minis.before, minis.after)
    if not any(is_meant(guess_node_traits(node)) for model in models for node in nodes_of(model)):
        return True
    numbers: dict[Hashable, int] = {}
    told = [_numbered(model, is_meant, numbers) for model in models]
    return None not in told and told[0] == told[1]


def _numbered(model: ModelProto, is_meant: Callable[[OpTraits], bool], numbers: dict[Hashable, int]) -> set[int] | None:
    """The numbers of the nodes that are meant, equal for what is computed alike; None where one lies deeper."""

    def number(*content: Hashable) -> int:
        return numbers.setdefault(content, len(numbers))

    known = {value.name: number("input", value.name) for value in model.graph.input}
    known |= {tensor.name: number("weight", bytes_but(tensor, "name")) for tensor in model.graph.initializer}
    meant = set[int]()
    count = 0
    for node in model.graph.node:
        reads = tuple(known[name] if name in known else number("other", name) for name in node.input)
        own = number(id(model), len(known)) if any(subgraphs(node)) else 0  # what a body reads is not looked at
        is_one = is_meant(guess_node_traits(node))
        said = tuple(sorted(item.SerializeToString(deterministic=True) for item in node.attribute))
        made = number(own, qualified_name(node.domain, node.op_type), node.overload, said, reads)
        known.update((name, number(made, place)) for place, name in enumerate(node.output))
        if is_one:
            meant.add(made)
            count += 1
    everywhere = sum(is_meant(guess_node_traits(node)) for node in nodes_of(model))
    return meant if everywhere == count else None
