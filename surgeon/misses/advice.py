"""The smallest change to a model that would mend a miss, as a command; empty where it is not obvious."""

from collections.abc import Sequence

from surgeon.indexing.scope import Node, split_op
from surgeon.matching.state import State
from surgeon.ops.schemas import schema


def other_value(state: State, nodes: Sequence[Node], name: str, value: str) -> str:
    """Give a constant another value; one that others read too, or that is computed, is replaced where it is read.

    nodes: those matched so far.
    """
    home = state.scope.home(name)
    if home is None or not state.index.constants.is_constant(state.scope, name):
        return ""
    node = home.producers.get(name)
    if len(home.readers(name)) == 1 and (node is None or node.op == "Constant"):
        return f"make {name if node is None else node.label} {value}"
    reader = next((item for item in reversed(nodes) if name in item.inputs), None)
    return f"let {reader.label} read {value} in place of {name!r}" if reader is not None else ""


def fixed(state: State, name: str) -> str:
    """Make a constant of an initializer that a caller may override."""
    home = state.scope.home(name)
    is_default = home is not None and name in home.initializers and name in home.inputs
    return f"take {name!r} out of the inputs of the graph" if is_default else ""


def other_attribute(node: Node, name: str, value: object) -> str:
    """Give an attribute another value; or none, where its op is known to do without."""
    if value is not None:
        return f"set {name} of {node.label} to {value}"
    domain, op = split_op(node.op)
    known = schema(domain, op, node.scope.versions.get(domain))
    spec = known.attributes.get(name) if known is not None else None
    return f"remove {name} from {node.label}" if spec is not None and not spec.required else ""


def other_domain(node: Node, domain: str) -> str:
    """Use the op of the same name of another domain."""
    return f"move {node.label} to domain {domain or 'ai.onnx'}"


def fewer_uses(name: str, readers: list[Node]) -> str:
    """Remove the readers that a match may not take a tensor from."""
    if len(readers) == 1:
        return f"remove the use of {name!r} by node {readers[0].label}"
    if len(readers) <= 3:
        return f"remove the uses of {name!r} by nodes {' and '.join(node.label for node in readers)}"
    return ""
