"""Rule sets of onnxscript as rules of surgeon: the matcher of onnxscript finds the sites, and surgeon proves them.

    import surgeon
    from onnxscript.rewriter import RewriteRuleSet
    surgeon.rewrite("in.onnx", surgeon.integrations.onnxscript.rules(RewriteRuleSet([...])), output="out.onnx")

Tested with onnxscript 0.7.2 and onnx-ir 1.1.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import onnx_graphsurgeon as gs

from surgeon.errors import ConditionFailed, OpsetError, RuleError, SurgeonError, UsageError, require
from surgeon.ir.index import Index
from surgeon.ir.scope import DEFAULT_DOMAINS, Scope, split_op
from surgeon.ops.builder.graph import Graph
from surgeon.ops.schemas import history, schema
from surgeon.ops.schemas.argument_binding import missing
from surgeon.ops.traversal import GRAPHS
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.rule import ReplacementForm, Rule
from surgeon.target_registry import ANY_KIND

if TYPE_CHECKING:
    from surgeon.integrations.matcher_copy import CopiedSite, MatcherCopy

NO_MATCH = "onnxscript found no match"
EXPLAINED = 2_000  # largest number of nodes of a scope in which a second pass of the matcher explains its failures
INTERMEDIATE = "ai.onnxruntime._fusion"  # domain of the ops that onnxscript's fusions write for each other
OTHER_OPSET = re.compile(r"Multiple versions of opset (\S*) ?used\. Expected version (\d+), but got (\d+)")  # an error


def rules(rule_sets: Any) -> tuple[Rule, ...]:
    """The rules of onnxscript rule sets, for every function of surgeon that takes rules.

    Each set runs once, in order and node by node, as onnxscript applies it.  Steps of several sets that build on each
    other are one site.  If its proof fails, the sets run again without the step at fault.

    Args:
        rule_sets: a RewriteRuleSet, a RewriteRule, or a sequence of them; adjacent rules are one set.

    Returns:
        A rule for each name in each set.  A rule without a name gets one by its position, such as `onnxscript_rule_1`.

    Raises:
        UsageError: something else is given, such as a function that fuses.

    Examples:
        >>> import surgeon
        >>> from onnxscript.rewriter.ort_fusions.bias_gelu import bias_gelu_rules
        >>> [rule.name for rule in surgeon.integrations.onnxscript.rules(bias_gelu_rules)]
        ['gelu_onnx_op', 'gelu_contrib_op']
    """
    module = sys._getframe(1).f_globals.get("__name__", __name__)  # so that a rule file defines them
    found: list[Rule] = []
    for members in _sets(rule_sets):
        names = [member.name or f"onnxscript_rule_{place}" for place, member in enumerate(members, len(found) + 1)]
        calls = {name for name, member in zip(names, members, strict=True) if member.as_function}
        matching = _RuleSetMatching(members, names)
        sites = matching.sites  # one object, by which a run finds the rules of one set
        found += [
            Rule(
                name=name,
                patterns=(),
                forms=[ReplacementForm(ANY_KIND, written)],
                conditions=(),
                approximate=0.0,
                doc="What: A rule of a rule set of onnxscript.",
                module=module,
                where="onnxscript",
                search=Search(sites, NO_MATCH, left=partial(matching.nearest, name)),
                once=True,
                unfinished=_is_any if name in calls else _is_intermediate,
            )
            for name in dict.fromkeys(names)
        ]
    return tuple(found)


def _is_intermediate(op: str) -> bool:
    return split_op(op)[0] == INTERMEDIATE


def _is_any(op: str) -> bool:
    """For a rule that makes a function of the matched nodes: its call only names them for a rule after it."""
    return True


def _sets(given: Any) -> Iterator[Sequence[Any]]:
    """The rules of each set."""
    from onnxscript.rewriter import RewriteRule, RewriteRuleSet

    items = list(given) if isinstance(given, (list, tuple)) else [given]
    wrong = [type(item).__name__ for item in items if not isinstance(item, (RewriteRule, RewriteRuleSet))]
    if wrong or not items:
        raise UsageError(
            f"Expected rule sets of onnxscript, got {f'an object of type {wrong[0]}' if wrong else 'none'}. Give a "
            "RewriteRuleSet, a RewriteRule, or a list of them. Functions such as fuse_xformers are not rule sets."
        )
    for is_set, group in groupby(items, lambda item: isinstance(item, RewriteRuleSet)):
        members = list(group)
        yield from (list(item.rules) for item in members) if is_set else [members]


@dataclass(eq=False, slots=True)
class _RuleSetMatching:
    """Finds the sites of one rule set."""

    members: Sequence[Any]
    """Rules of onnxscript."""
    names: Sequence[str]
    """Their names in surgeon."""

    def sites(self, index: Index, scope: Scope) -> Iterator[Found]:
        """The matches of the onnxscript rule set in one pass over the nodes of a scope."""
        from surgeon.integrations.matcher_copy import copy_of

        copy = copy_of(index, scope)
        graph = copy.graph(scope)
        _call(member.graph_pre_visitor for member in self.members)
        try:
            for node in graph:
                for member, name in zip(self.members, self.names, strict=True):
                    site = _site(copy, scope, graph, node=node, member=member, name=name)
                    if site is None:
                        continue
                    bound = {"site": (site,), "inputs": VariadicBinding(dict.fromkeys(site.reads.values()))}
                    nodes, outputs = tuple(site.nodes), tuple(site.outputs)
                    yield Found(nodes, outputs, bound, kept=site.kept, rule=name, content=site.content)
                    if not all(removed.alive for removed in site.nodes):
                        copy.apply(site, scope, graph, node)
                        break
                    copy.forget(site.delta)
                    _call([member.graph_post_visitor])  # which may hold tensors of the refused replacement
        finally:
            _call(member.graph_post_visitor for member in self.members)

    def nearest(self, name: str, index: Index, scope: Scope) -> str | None:
        """Why the nearest match of a rule in a scope fails, as a clause; None without one, and for a large scope."""
        from onnxscript.rewriter import MatchingTracer, MatchStatus

        from surgeon.integrations.matcher_copy import copy_of

        if len(scope.live_nodes()) > EXPLAINED:
            return None
        copy, tracer = copy_of(index, scope), MatchingTracer()
        graph = copy.graph(scope)
        for member in (member for member, own in zip(self.members, self.names, strict=True) if own == name):
            for node in graph:
                with _errors_of(name, node):
                    member.match(copy.model, graph, node, tracer=tracer)
        tried = [info for best in tracer.best_matches_map.values() for info in best[:1]]
        best = max(tried, key=lambda info: info.score(), default=None)
        nodes = 0 if best is None else len(best.match_result.nodes)
        is_near = best is not None and (nodes > 1 or best.status == MatchStatus.CONDITION_FAILED)
        if best is None or not is_near or best.status == MatchStatus.SUCCESS:
            return None
        matched = f"{nodes} node{'s' * (nodes > 1)} matched"
        return f"{NO_MATCH}, the nearest at {_label(best.root_node)}: {best.match_result.reason.rstrip('.')}; {matched}"


def _label(node: Any) -> str:
    """The name of a node in messages, as `Node.label`."""
    return str(node.name or next((value.name for value in node.outputs if value.name), node.op_type))


@contextmanager
def _errors_of(name: str, node: Any) -> Iterator[None]:
    """Let an error of a rule name the rule and the node."""
    try:
        yield
    except SurgeonError:
        raise  # of the file, from which a rule reads a weight
    except Exception as error:
        what = f"{type(error).__name__}: {str(error).rstrip('.')}"
        raise RuleError(f"Rule {name} of onnxscript raised an error at node {_label(node)!r}: {what}.") from error


def _call(visitors: Iterable[Callable[[], None] | None]) -> None:
    for visitor in visitors:
        if visitor is not None:
            visitor()


def _site(copy: "MatcherCopy", scope: Scope, graph: Any, *, node: Any, member: Any, name: str) -> "CopiedSite | None":
    """The match of a rule at a node of the copy, if there is one."""
    with _errors_of(name, node):
        try:
            delta = member.try_rewrite(copy.model, graph, node)
        except ValueError as error:
            other = OTHER_OPSET.match(str(error))
            if other is None:
                raise
            domain, has, wants = other[1] or "ai.onnx", int(other[2]), int(other[3])
            why = f"it writes ops of {domain} at opset {wants}, but the model has {has}"
            needs = wants if not other[1] and wants > has else None
            return copy.refused(scope, node, ConditionFailed(why) if needs is None else OpsetError(why, needs))
    return None if delta is None else copy.site(scope, delta)


def written(g: Graph, site: Any, inputs: Any) -> list[Any]:
    """The replacement that onnxscript built, as nodes of surgeon."""
    if site.refusal is not None:
        raise site.refusal
    by_name = {tensor.name: tensor for tensor in inputs}
    tensors = {value: by_name[name] for value, name in site.reads.items()}
    for place, (value, array) in enumerate(site.constants.items()):
        tensors[value] = gs.Constant(f"constant_{place}", array)
    for node, attributes in zip(site.delta.new_nodes, site.attributes, strict=True):
        domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
        require(all(item.type not in GRAPHS for item in attributes), f"it writes a {node.op_type} with a subgraph")
        versions = history(domain, node.op_type)
        if versions and schema(domain, node.op_type, g.version(domain)) is None:
            raise OpsetError(missing(domain, node.op_type, g.version(domain)), versions[0].since_version)
        given = [None if value is None else tensors[value] for value in node.inputs]
        made = g.emit(domain, node.op_type, given, {item.name: item for item in attributes}, len(node.outputs))
        tensors.update(zip(node.outputs, made, strict=True))
    return [tensors[value] for value in site.outputs.values()]
