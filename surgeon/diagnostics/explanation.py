"""`surgeon.explain`: the near misses of rules in a model, and their sites."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any

from surgeon.diagnostics.decomposable_ops import mention_decomposable_ops
from surgeon.diagnostics.rule_fixes import is_user_rule, with_rule_fixes
from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, by_component, model_name, resolve_model
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.pipeline.acceptance.already_fused import already_fused_mismatch
from surgeon.pipeline.acceptance.kernel_support import resolve_provider
from surgeon.pipeline.acceptance.match_acceptance import MatchAcceptance, MatchDeclined
from surgeon.pipeline.acceptance.near_misses import (
    Explainer,
    NearMissSite,
    accept_by,
    group_equal,
    is_near,
    missing_ops,
    nearness,
    rule_plans,
    without_overlaps,
)
from surgeon.pipeline.acceptance.op_history import OpHistory
from surgeon.pipeline.reports.site import Site
from surgeon.pipeline.rewriting.driver_settings import DriverSettings
from surgeon.pipeline.rewriting.greedy_driver import declined_mismatch
from surgeon.pipeline.rewriting.rule_run import RuleRun, gc_paused, open_index
from surgeon.pipeline.rewriting.rule_set import Rules
from surgeon.printed_commands import command
from surgeon.result_base import ResultBase, json_of
from surgeon.rules.catalogue import default_group, resolve, unique_rules
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.matcher import find, match_at
from surgeon.rules.mismatches.candidate_roots import TolerantRootPaths, candidate_roots
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.rule import Rule
from surgeon.text import close_matches, join_all, join_first

_DISPLAY = "surgeon.display.{}"  # a higher layer, imported only to print
MAX_PER_RULE = 5  # different near misses reported for each rule
MAX_DETAILED_RULES = 8  # rules explained in full; the rules of a large group fail for the same reasons
INSTEAD = ("op", "operand")  # kinds of mismatch with another node instead of the wanted one
BREADTH = 2  # ops of a pattern at which roots are searched: if one is absent at a site, the second still finds it
SOME = 3  # nodes in the message on an unknown name
ALIKE = 2  # most letters by which the length of a suggested name may differ


@dataclass(slots=True)
class Explanation(ResultBase):
    """Why one rule does not fire in one model, and its sites."""

    rule: str
    """Name of the rule."""
    fires: list[tuple[str, str]] = field(default_factory=list)
    """(scope, node) of its sites."""
    times: int = 0
    """The number of times it fires, counted as in a rewrite: more than once at a site of several dependent steps."""
    misses: list[Mismatch] = field(default_factory=list)
    """Near misses, nearest first."""
    more: int = 0
    """Further near misses that are omitted."""
    taken_by: tuple[str, ...] = ()
    """Other rules that fire at the node that the user named."""
    left: list[tuple[str, str]] = field(default_factory=list, repr=False)
    """(scope, node) at which it would fire after the run, but another rule fired there."""

    def fired_at(self, sites: Sequence[Site]) -> None:
        """Set the sites at which it fired, and how often."""
        self.fires = [*((site.scope, site.root) for site in sites), *self.left]
        self.times = sum(site.fired.get(self.rule, 1) for site in sites) + len(self.left)

    def to_dict(self) -> dict[str, Any]:
        """The explanation as values that JSON supports."""
        return {
            "rule": self.rule,
            "fires": [{"scope": scope, "node": node} for scope, node in self.fires],
            **json_of(self, "times misses more taken_by"),
        }


class Explanations(ResultBase, list[Explanation]):
    """The explanations of several rules.  node: name that the user gave.  model: its path, "" for one in memory."""

    node: str | None = None
    model: str = ""

    def __str__(self) -> str:
        """The text that the command line prints."""
        document = import_module(_DISPLAY.format("content.explanation")).document(self)
        return str(import_module(_DISPLAY.format("terminal.terminal_renderer")).text_of(document).rstrip("\n"))


class Mismatches(ResultBase, list[Mismatch]):
    """Mismatches of several rules.  explanations: the same with the sites of each rule."""

    explanations: Explanations | None = None

    def __str__(self) -> str:
        """The text that the command line prints."""
        return repr(self) if self.explanations is None else str(self.explanations)


@by_component("source")
def explain(
    source: ModelLike,
    rules: Rules | None = None,
    *,
    target: str = "ort",
    ep: str | None = None,
    node: str | None = None,
    top: int | None = MAX_PER_RULE,
) -> list[Mismatch]:
    """Explain why rules do not fire, with the nearest misses first for each rule.

    Several rules run together, in memory, because one may need the result of another.  The explanations are about the
    model after that run.

    Args:
        source: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.
        rules: comma-separated rules or groups, as for `rewrite`: "gelu", "transformers", "./my_rules.py".  Exclude a
            rule with "-name".  Default: the group for the target, for example "ort".
        target: as for `rewrite`.
        ep: as for `rewrite`.
        node: explain one node, given by its name or by the name of a tensor that it produces.
        top: number of different near misses to list per rule.  In Python, None for all.

    Returns:
        The misses, as a list with the text of the command line; empty for a rule that fires at all near matches.

    Raises:
        UsageError: the model has no such node.
        SurgeonError: bad input.

    Examples:
        >>> import surgeon
        >>> surgeon.explain("notebooks/models/tiny_distilbert.onnx", "quick_gelu")[0].reason
        'the model has no Sigmoid'
    """
    found = explanations(source, rules, target=target, ep=ep, node=node, top=top)
    misses = Mismatches(miss for explanation in found for miss in explanation.misses)
    misses.explanations = found
    return misses


def explanations(
    source: ModelLike,
    rules: Rules | None = None,
    *,
    target: str = "ort",
    ep: str | None = None,
    node: str | None = None,
    top: int | None = MAX_PER_RULE,
) -> Explanations:
    """As `explain`, with the sites of each rule."""
    resolve_provider(target, ep)
    if top is not None and top < 1:
        raise UsageError(f"Invalid top={top}. Give at least 1.")
    chosen = unique_rules(resolve(default_group(target) if rules is None else rules))
    early, last = [rule for rule in chosen if not rule.last], [rule for rule in chosen if rule.last]
    with gc_paused(), Model.open(resolve_model(source)) as model:
        found_by_rule = _explain_after_run(model, early, early, target=target, ep=ep, node=node, top=top, before={})
        found_by_rule |= _explain_after_run(
            model, chosen, last, target=target, ep=ep, node=node, top=top, before=found_by_rule
        )
    found = Explanations(found_by_rule[rule] for rule in chosen)
    found.node, found.model = node, model_name(source)
    return found


def _explain_after_run(
    model: Model,
    rules: Sequence[Rule],
    about: Sequence[Rule],
    target: str,
    ep: str | None,
    node: str | None,
    top: int | None,
    before: dict[Rule, Explanation],
) -> dict[Rule, Explanation]:
    """Explanations of some rules after a run of all of them.

    about: rules to explain.  before: explanations of the other rules from a run without these; the sites at which they
    fire now are added.
    """
    if not about:
        return {}
    index = open_index(model)
    asked = None if node is None else _nodes_named(index, node)
    run = RuleRun(model, index, DriverSettings(rules, target, ep))
    followed = None if asked is None else _Followed.of(run, asked)
    for rule, explanation in before.items():
        explanation.fired_at(_sites(run, rule, followed))
        if explanation.fires:  # these rules may have produced the missing op
            explanation.misses = [miss for miss in explanation.misses if miss.node]
    history = OpHistory(index, run.driver.log)
    found = {rule: _explain_rule(run, rule, history, followed=followed, top=top) for rule in about}
    for rule, explanation in found.items():
        if len(rules) <= MAX_DETAILED_RULES:
            explanation.misses = [mention_decomposable_ops(index, miss) for miss in explanation.misses]
        explanation.misses = [replace(miss, _seen=(index, rule)) for miss in explanation.misses]
    return found


@dataclass(slots=True)
class _Followed:
    """The changes of the run to the nodes that the user named."""

    now: list[Node] = field(default_factory=list)
    """Nodes that replace them in the result."""
    by_rule: dict[str, dict[Site, None]] = field(default_factory=dict)
    """By rule, the sites at which it replaced one of them or of their replacements."""

    @classmethod
    def of(cls, run: RuleRun, asked: list[Node]) -> "_Followed":
        """Follow nodes through a run."""
        steps = [(site, step) for site in run.sites for step in site.steps]
        took = {node: (site, step) for site, step in steps for node in (*step.removed, *step.orphans)}
        followed, waiting = cls(), list(asked)
        while waiting:
            node = waiting.pop()
            if node.alive:
                followed.now.append(node)
                continue
            site, step = took.pop(node, (None, None))
            if site is None or step is None:
                continue  # reached before through another node
            kept = [new for new, old in step.kept.items() if old is node]
            waiting += kept or (step.added if node in step.removed else ())
            if not kept:
                followed.by_rule.setdefault(step.rule, {})[site] = None
        return followed


def _sites(run: RuleRun, rule: Rule, followed: _Followed | None) -> list[Site]:
    """Sites of a run at which a rule fired; if the user named nodes, those that replaced one of them."""
    if followed is not None:
        return list(followed.by_rule.get(rule.name, ()))
    return [site for site in run.sites if rule.name in site.fired]


def _explain_rule(
    run: RuleRun, rule: Rule, history: OpHistory, followed: _Followed | None, top: int | None
) -> Explanation:
    found, work = Explanation(rule.name), _RuleOnModel(run.index, rule, run.settings.target, run.settings.ep)
    fires = list(work.fires())  # matches that the run left to other rules
    if followed is not None:
        fires = [match for match in fires if any(node in match.nodes for node in followed.now)]
        found.taken_by = tuple(other for other in followed.by_rule if other != rule.name)
    found.left = [(match.scope.label, match.root.label) for match in fires]
    found.fired_at(_sites(run, rule, followed))
    absent = (history.annotate(miss) for miss in missing_ops(run.index, rule, run.settings.target))
    if followed is not None:
        misses = [] if found.fires else list(work.at(followed.now))
        if found.taken_by:  # the rule that fired there is the main reason
            misses = list(filter(is_near, misses))
        elif not misses and not found.fires:
            misses = list(absent)
        found.misses = work.with_fixes(sorted(misses, key=nearness))
        return found
    misses = [miss for miss in (*work.refused, *work.in_whole_model()) if not miss.of_written or miss.opset]
    near = group_equal(filter(is_near, misses))
    if not misses and not found.fires:
        near = work.misses_with_another_op()
    if not near and not found.fires:
        there = already_fused_mismatch(run.index, rule, run.settings.target)
        near = group_equal(misses)[:1] or ([there] if there is not None else list(islice(absent, 1)))
    found.misses = work.with_fixes(near[:top])
    found.more = len(near) - len(found.misses)
    return found


class _RuleOnModel:
    """One rule on one model."""

    def __init__(self, index: Index, rule: Rule, target: str, ep: str | None) -> None:
        self.index, self.rule, self.target = index, rule, target
        self.explainer = Explainer(index, rule.name)
        self.acceptance = MatchAcceptance.over(index, target, ep)
        self.taken: set[Node] = set()
        self.refused: list[Mismatch] = []  # declined matches of a search, which has no near misses

    def _sources(self) -> Iterator[tuple[Scope, CompiledPattern, Callable[[Match], object]]]:
        for scope, plan in rule_plans(self.index, self.rule, self.target):
            for compiled in plan.sources:
                yield scope, compiled, accept_by(self.acceptance, self.rule, plan, compiled)

    def fires(self) -> Iterator[Match]:
        """Matches at which the rule fires; a node belongs to one match."""
        for scope, compiled, accept in self._sources():
            for match in find(self.index, compiled, scope, partial(self._is_accepted, accept)):
                if not self.taken.intersection(match.nodes):
                    self.taken.update(match.nodes)
                    yield match
        self.explainer.covered.update(self.taken)

    def _is_accepted(self, accept: Callable[[Match], object], match: Match) -> bool:
        if match.rule not in ("", self.rule.name):
            return False
        try:
            accept(match)
        except MatchDeclined as declined:
            if self.rule.search is not None:
                self.refused.append(
                    replace(declined_mismatch(self.rule, match, match.root, declined), wanted=str(declined))
                )
            return False
        return True

    def with_fixes(self, misses: list[Mismatch]) -> list[Mismatch]:
        """Mismatches with edits of the rule that make it fire there, if the user can edit it."""
        if not misses or not is_user_rule(self.rule):
            return misses
        return [
            with_rule_fixes(self.index, self.rule, self.target, acceptance=self.acceptance, miss=miss)
            for miss in misses
        ]

    def misses_with_another_op(self) -> list[Mismatch]:
        """Near misses with another op in place of an absent one: r · r for r²; or with an edit that fires."""
        nodes = (node for scope in self.index.scopes for node in scope.live_nodes())
        doubled = {node.label for node in nodes if len(node.inputs) > len(set(node.inputs)) == 1}
        if not doubled and not is_user_rule(self.rule):
            return []
        others = group_equal(miss for miss in self.in_whole_model(may_lack=True) if miss.kind in INSTEAD and miss.at)
        mended = (miss for miss in self.with_fixes(others[:MAX_PER_RULE]) if miss.edits)
        return [miss for miss in others if miss.at in doubled and is_near(miss)] or list(islice(mended, 1))

    def in_whole_model(self, *, may_lack: bool = False) -> Iterator[Mismatch]:
        """The near misses in the whole model.  may_lack: even if the model lacks an op of the pattern."""
        found: list[NearMissSite] = []
        for scope, compiled, accept in self._sources():
            roots = candidate_roots(compiled, scope, BREADTH, may_lack=may_lack)
            found += self.explainer.misses_at(compiled, scope, roots, accept)
        return without_overlaps(found, self.taken)

    def at(self, nodes: list[Node]) -> Iterator[Mismatch]:
        """For each pattern, the nearest mismatch at a site that may contain one of the nodes."""
        for scope, compiled, accept in self._sources():
            self.explainer.covered = set()
            here = [node for node in nodes if node.scope is scope]
            roots = [root for node in here for root in _roots(scope, compiled, node)]
            found = sorted(self.explainer.misses_at(compiled, scope, roots, accept), key=NearMissSite.order)
            around = [place for place in found if any(node in place.best.nodes for node in here)]
            yield from (place.miss for place in (around or found)[:1])

    def match_containing(self, node: Node) -> Match | None:
        """A match that contains a node and that the rule would rewrite; None without one."""
        for scope, compiled, accept in self._sources():
            if scope is not node.scope:
                continue
            may = partial(self._is_accepted, accept)
            if compiled.search is not None:  # it has no root
                found = find(self.index, compiled, scope, may)
            else:
                matches = (match_at(self.index, compiled, root, may) for root in _roots(scope, compiled, node))
                found = (match for match in matches if match is not None)
            fitting = next((match for match in found if node in match.nodes), None)
            if fitting is not None:
                return fitting
        return None


def mismatches_at(index: Index, rule: Rule, target: str, ep: str | None, node: Node) -> list[Mismatch]:
    """Why a rule does not fire at a node, nearest first; the index is not edited."""
    return sorted(_RuleOnModel(index, rule, target, ep).at([node]), key=nearness)


def match_covering(index: Index, rule: Rule, target: str, node: Node) -> Match | None:
    """The match of a rule that contains a node; None without one.  The index is not edited."""
    return _RuleOnModel(index, rule, target, None).match_containing(node)


def _roots(scope: Scope, compiled: CompiledPattern, node: Node) -> list[Node]:
    """Possible roots of a match that contains this node: nodes above it, else itself."""
    straight, around = TolerantRootPaths(scope, compiled).up(node, True)
    return [*reversed(straight), *reversed(around)] or [node]


def _nodes_named(index: Index, name: str) -> list[Node]:
    """Nodes of this name in all scopes, else the producer of a tensor of this name."""
    if not isinstance(name, str):
        raise UsageError(f"Invalid node={name!r}. Give the name of a node, or of a tensor that a node produces.")
    nodes = [(scope, node) for scope in index.scopes for node in scope.live_nodes()]
    found = [node for _, node in nodes if node.label == name] or [node for _, node in nodes if name in node.outputs]
    if found:
        return found
    if any(scope.defines(name) for scope in index.scopes):
        raise UsageError(
            f"{name!r} is an input or a weight. Give the name of a node, or of a tensor that a node produces."
        )
    names = {text for _, node in nodes for text in (node.label, *node.outputs) if abs(len(text) - len(name)) <= ALIKE}
    near = close_matches(name, sorted(names))
    some = join_first([node.label for _, node in nodes], SOME) or "none"
    others = f"it has {some}; to see all, run: {command('view', 'IN')}"
    hint = f"did you mean {join_all(near, 'or')}?" if near else others
    raise UsageError(f"The model has no node or tensor {name!r}; {hint}")
