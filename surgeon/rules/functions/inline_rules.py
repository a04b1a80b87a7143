"""Rules that replace calls of local functions by their bodies, one step for each call.

They run before all other rules.  A function without calls afterwards is removed from the file.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from onnx import FunctionProto, NodeProto

from surgeon.errors import GraphError, Unavailable, UsageError, require
from surgeon.ir.function_table import calls
from surgeon.ir.index import Index
from surgeon.ir.mutations import drop, import_domain
from surgeon.ir.scope import Node, Scope, qualified_name
from surgeon.ops.builder.graph import Graph
from surgeon.ops.schemas.node_check import check_node
from surgeon.ops.traversal import FunctionKey, all_nodes, called_function_key, expanded_sizes, function_key, imports_of
from surgeon.rules.functions.call_expansion import emit_body, why_versions_differ
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.rule import Rule, rule
from surgeon.target_registry import ANY_KIND
from surgeon.text import close_matches, join_all

ALL = "all"
MAX_NODES = 1 << 16  # nodes that one call may expand to beyond those of the functions


def inline_rules(index: Index, names: Sequence[str]) -> list[Rule]:
    """One rule for each function to inline, named "inline domain::Name".

    names: of functions of the model, or "all".  Raises UsageError for an unknown name, and if functions call one
    another so often that a call expands to far more nodes than they contain.
    """
    there = list(dict.fromkeys(qualified_name(*key[:2]) for key in index.local))
    for name in names:
        if name != ALL and name not in there:
            near = close_matches(name, there)
            hint = f"Did you mean {join_all(near, 'or')}?" if near else f"Its functions: {', '.join(there) or 'none'}"
            raise UsageError(f"The model has no local function {name!r}. {hint}")
    wanted = [name for name in there if name in names or ALL in names]
    _require_few({key: index.local.get(key) for key in index.local if qualified_name(*key[:2]) in wanted})
    return [_rule(name, frozenset(wanted), is_named=name in names) for name in wanted]


def _require_few(functions: Mapping[FunctionKey, FunctionProto | None]) -> None:
    """Raise UsageError for functions of which a call expands to too many nodes.  Recursion was refused before."""
    there = {key: one for key, one in functions.items() if one}
    most = MAX_NODES + sum(1 for one in there.values() for _ in all_nodes(one.node))
    for key, size in expanded_sizes(there).items():
        if size > most:
            raise UsageError(
                f"Inlining {qualified_name(*key[:2])} would give {size:,} nodes for each call, because its functions "
                "call one another many times. Inline fewer functions."
            )


def remove_unused_functions(index: Index) -> None:
    """Drop the functions of the file whose calls were all inlined, and those that only these called."""
    functions = {
        function_key(scope.proto): scope for scope in index.functions if isinstance(scope.proto, FunctionProto)
    }
    skeleton = index.model.skeleton
    nodes = [*skeleton.graph.node, *(node for function in skeleton.functions for node in function.node)]
    were_called = {called_function_key(node) for node in all_nodes(nodes)}
    while True:
        left = calls(index.scopes, functions)
        gone = [key for key in functions if key in were_called and not left[key] and not functions[key].is_dropped]
        if not gone:
            return
        for key in gone:
            drop(functions[key])


def _rule(name: str, wanted: frozenset[str], *, is_named: bool) -> Rule:
    """The rule for one function.  is_named: whether the user named it, so that a failure is an error."""

    known: dict[Hashable, Unavailable | None] = {}

    def calls_of(index: Index, scope: Scope) -> Iterator[Found]:
        """Calls of a local function."""
        while True:  # an expanded body may contain further calls
            alive = [node for node in scope.by_op.get(name, ()) if node.alive]
            found = [node for node in alive if index.local.get(called_function_key(node.proto)) is not None]
            for node in found:
                yield Found((node,), _used(index, node), {"inputs": VariadicBinding(node.inputs)})
            if all(node.alive for node in found):
                return

    def write(g: Graph, match: Match) -> Any:
        node, local = match.root.proto, match.index.local

        def find(inner: NodeProto) -> FunctionProto | None:
            function = (
                local.get(called_function_key(inner)) if qualified_name(inner.domain, inner.op_type) in wanted else None
            )
            if function is not None:
                key = function_key(function), tuple(sorted(match.scope.versions.items()))
                if key not in known:
                    known[key] = why_versions_differ(function, match.scope.versions) or _broken(function)
                _require_inlinable(function, match, known[key] or _mistyped(function, inner), is_named)
            return function

        function = find(node)
        if function is None:
            raise GraphError(f"The model has no local function {name}.")
        inputs = [item if given else None for item, given in zip(match["inputs"], node.input, strict=True)]
        given = {item.name: item for item in node.attribute}
        return emit_body(
            g, function, inputs, given, find=find, outputs=[name in match.outputs for name in node.output], settle=True
        )

    write.__doc__ = f"Inline the calls of local function {name}."
    search = Search(calls_of, f"nothing calls {name}")
    return rule(search=search, target=ANY_KIND, name=f"inline {name}")(write)


def _used(index: Index, node: Node) -> tuple[str, ...]:
    """The outputs of a call that are used; all of them if none is."""
    return tuple(compress(node.outputs, index.used(node))) or tuple(filter(None, node.outputs))


def _mistyped(function: FunctionProto, call: NodeProto) -> Unavailable | None:
    """An attribute of a call whose type differs from its use in the body."""
    given = {item.name: item.type for item in call.attribute if not item.ref_attr_name}
    taken = (item for node in all_nodes(function.node) for item in node.attribute if item.ref_attr_name in given)
    for item in taken:
        if item.type != given[item.ref_attr_name]:
            return Unavailable(f"a call gives the attribute {item.ref_attr_name!r} a type that the body rejects")
    return None


def _broken(function: FunctionProto) -> Unavailable | None:
    """Why a body is invalid; inlined, it would look like a defect of the rule."""
    made = {name for node in function.node for name in node.output}.union(function.input)
    missing = [name for name in function.output if name not in made]
    if missing:
        return Unavailable(f"its body does not compute the output {missing[0]!r}")
    versions = imports_of(function.opset_import)
    for node in all_nodes(function.node):
        complaints = check_node(node, versions.get(node.domain) or 1, lambda _: None, in_function=True)
        if complaints:
            return Unavailable(f"its body is invalid ({complaints[0].rstrip('.')})")
    return None


def _require_inlinable(function: FunctionProto, match: Match, why: Unavailable | None, is_named: bool) -> None:
    """Refuse a body that would mean something else; import its domains that the caller lacks."""
    if why:
        sentence = f"local function {function.domain}::{function.name} cannot be inlined: {why.reason}"
        if is_named:
            raise GraphError(f"{sentence[0].upper()}{sentence[1:]}.")
        require(False, sentence)
    for domain, version in imports_of(function.opset_import).items():
        import_domain(match.scope, domain, version)
