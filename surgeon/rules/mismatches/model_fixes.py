"""The smallest change to a model that would fix a mismatch, as a command; "" if it is not obvious."""

from contextlib import suppress
from typing import Any

import numpy.typing as npt
from onnx import numpy_helper

from surgeon.analysis.assumptions.assumed_facts import assumable_input
from surgeon.analysis.assumptions.assumption import Assumption
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.builder.graph import DOMAINS
from surgeon.ops.schemas import schema
from surgeon.ops.schemas.attribute_values import attribute_proto, value_text
from surgeon.rules.matching.match_state import MatchState
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.onnx_inference import keeps_output_types


def suggest_value(state: MatchState, name: str, value: str, array: npt.NDArray[Any] | None = None) -> str:
    """Change the value of a constant; if it has other readers or is computed, replace it in its reader.

    array: the value, of integers: if a reader would have another output shape, nothing is
    suggested.
    """
    home = state.scope.defining_scope(name)
    if home is None or not state.index.constants.is_constant(state.scope, name):
        return ""
    readers = [item for item in state.nodes if name in item.inputs]
    if array is not None and not all(_reads_as_well(state, item, name, array) for item in readers):
        return ""
    node = home.producers.get(name)
    if len(home.readers(name)) == 1 and (node is None or node.op == "Constant"):
        return f"set {name if node is None else node.label} to {value}"
    return f"make {readers[-1].label} read {value} instead of {name!r}" if readers else ""


def suggest_constant(state: MatchState, name: str) -> str:
    """Make an initializer a constant by removing it from the inputs."""
    return f"remove {name!r} from the inputs of the graph" if state.is_default(name) else ""


def suggest_attribute(state: MatchState, node: Node, name: str, value: Any) -> str:
    """Change an attribute, or remove it if its op allows that.

    Nothing is suggested if the node would have another output shape or dtype.
    """
    domain, op = split_op(node.op)
    known = schema(domain, op, node.scope.versions.get(domain))
    spec = known.attributes.get(name) if known is not None else None
    if value is None and (spec is None or spec.required):
        return ""
    with suppress(TypeError, ValueError):  # the value has another type
        kind = spec.type if spec is not None else None
        made = None if value is None else attribute_proto(name, value, kind)
        if keeps_output_types(shapes_of(state.index).site(node), {name: made}, {}):
            change = f"set {name} of {node.label} to {value_text(value)}"
            return f"remove {name} from {node.label}" if value is None else change
    return ""


def suggest_assumption(index: Index, scope: Scope, name: str, words: str) -> str:
    """The assumption on an input of the model by which a tensor obeys some words, as "NAME: WORDS"."""
    wanted = Assumption.parse(words)
    source = assumable_input(index, scope, name, wanted)
    return "" if source is None else f"{source}: {wanted}"


def _reads_as_well(state: MatchState, node: Node, name: str, array: npt.NDArray[Any]) -> bool:
    """Whether a node has the same output shapes for another value of an input."""
    made = numpy_helper.from_array(array)
    places = [place for place, item in enumerate(node.inputs) if item == name]
    return keeps_output_types(shapes_of(state.index).site(node), {}, dict.fromkeys(places, made))


def suggest_domain(node: Node, domain: str) -> str:
    """Use the op of the same name in another domain, if that has it at the imported version."""
    if schema(domain, split_op(node.op)[1], node.scope.versions.get(domain)) is None and domain in DOMAINS:
        return ""
    return f"change the domain of {node.label} to {domain or 'ai.onnx'}"


def suggest_removing_uses(name: str, readers: list[Node]) -> str:
    """Remove the readers of a tensor outside the match."""
    if len(readers) == 1:
        return f"remove the use of {name!r} by node {readers[0].label}"
    if len(readers) <= 3:
        return f"remove the uses of {name!r} by nodes {' and '.join(node.label for node in readers)}"
    return ""
