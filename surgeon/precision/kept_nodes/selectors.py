"""Selectors of nodes that a user wants to keep: 'op:Softmax', 'name:*/norm/*', 'rule:layer_norm'."""

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase

from surgeon.errors import UsageError
from surgeon.file.model import Address
from surgeon.file.save import OutputModel
from surgeon.ir.scope import Node
from surgeon.pipeline.rewriting.rewrite import find
from surgeon.printed_commands import command
from surgeon.text import did_you_mean

NodeAddress = tuple[Address, int]
"""A node in any copy of a model: the scope that it lies in, and its slot there."""
AUTO = "auto"
_KINDS = ("op", "name", "rule")


def node_address(node: Node) -> NodeAddress:
    """The scope and the slot of a node of the file."""
    return node.scope.address, node.slot


def select_nodes(keep: Sequence[str], nodes: Collection[Node], source: OutputModel) -> dict[NodeAddress, str]:
    """The selected nodes, each with its selector.  Raises UsageError if a selector selects nothing, and RuleError."""
    found: dict[NodeAddress, str] = {}
    for text in keep:
        if text == AUTO:
            continue
        kind, sign, pattern = text.partition(":")
        if not sign or kind not in _KINDS or not pattern:
            raise UsageError(f"Invalid selection of nodes {text!r}. Write op:NAME, name:PATTERN, rule:NAME or auto.")
        named = list(_named(kind, pattern, nodes, source))
        if not named:
            raise UsageError(f"No node of the model matches {text!r}; {_near(kind, pattern, nodes)}")
        found.update((place, f"requested by {text}") for place in named if place not in found)
    return found


def _named(kind: str, pattern: str, nodes: Collection[Node], source: OutputModel) -> Iterator[NodeAddress]:
    if kind == "rule":
        for match in find(source, pattern):
            for node in match.nodes:
                yield node_address(node)
        return
    for node in nodes:
        names = (node.op, node.op.rpartition("::")[2]) if kind == "op" else (node.label, *filter(None, node.outputs))
        if any(fnmatchcase(name, pattern) for name in names):
            yield node_address(node)


def _near(kind: str, pattern: str, nodes: Collection[Node]) -> str:
    if kind == "rule":
        return f"to see why the rule does not match: {command('explain', 'IN', '--rules', pattern)}"
    known = {node.op if kind == "op" else node.label for node in nodes}
    return did_you_mean(pattern, sorted(known))


__all__ = ["AUTO", "NodeAddress", "node_address", "select_nodes"]
