"""Applies rules to a graph until nothing changes, and logs the steps (greedy rewriting)."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from surgeon.errors import ConditionFailed, RewriteError
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.pipeline.acceptance.already_fused import already_fused_mismatch
from surgeon.pipeline.acceptance.match_acceptance import MatchAcceptance, MatchDeclined
from surgeon.pipeline.acceptance.near_misses import mark_near, near_misses, nearest
from surgeon.pipeline.acceptance.op_history import OpHistory
from surgeon.pipeline.checks import Progress
from surgeon.pipeline.rewriting.driver_settings import DriverSettings
from surgeon.pipeline.rewriting.step_replay import Replay
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.matcher import find
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.replacing.replacement import Replacement
from surgeon.rules.replacing.splicer import RewriteStep, Splicer
from surgeon.rules.rule import Rule, RulePlan

ROUNDS = 50
GROWTH, GROWTH_FREE = 20, 5000  # nodes that rules may add: per node of the source, and in any case
DEEPEST = 4  # inserted nodes that identify a tensor

State: TypeAlias = tuple[str, tuple[str, ...]]


@dataclass(slots=True)
class GreedyDriver:
    """Runs rules over one index until none fires (greedy rewriting)."""

    index: Index
    """Model that is rewritten."""
    settings: DriverSettings
    """Rules, target and nodes."""
    progress: Progress | None = None
    """Called after each rewrite with the rule's name and the number of rewrites so far."""
    replay: Replay = field(default_factory=Replay)
    """Steps that a repeated run may apply."""
    splicer: Splicer = field(init=False)
    """Inserts replacements and keeps the log."""
    acceptance: MatchAcceptance = field(init=False)
    """Decides which matches may be rewritten."""
    _seen: dict[Any, list[State]] = field(default_factory=dict)  # earlier states of a place, by scope and outputs
    _refused: dict[tuple[int, int], dict[str, Mismatch]] = field(default_factory=dict)  # by rule and scope, then node
    _settled: dict[tuple[int, int], int] = field(default_factory=dict)  # length of the log when a rule found nothing
    _plans: dict[tuple[Rule, int | None], RulePlan | None] = field(default_factory=dict)  # by rule and opset
    _before_last: tuple[list[Mismatch], int] = ([], 0)  # refusals, and length of the log, before the `last` rules ran
    _growth: int = 0  # nodes added minus nodes removed
    _allowed_growth: int = 0

    def __post_init__(self) -> None:
        self.splicer = Splicer(self.index)
        self.replay.wrote = self.splicer.step_of
        self.acceptance = MatchAcceptance.over(self.index, self.settings.target, self.settings.ep, self.splicer)
        self.acceptance.is_strict = self.settings.is_strict

    @property
    def log(self) -> list[RewriteStep]:
        """The steps, in order."""
        return self.splicer.steps

    def run(self) -> None:
        """Rewrite until no rule fires.  Raises RewriteError if the rules do not terminate."""
        self._allowed_growth = GROWTH * sum(len(scope.nodes) for scope in self.index.scopes) + GROWTH_FREE
        scopes = self.index.scopes
        if self.settings.inline_rules:  # the main graph first: a function without callers is removed, not rewritten
            from surgeon.rules.functions.inline_rules import remove_unused_functions  # not at the top: few runs inline

            self._run_to_the_end(self.settings.inline_rules, [scope for scope in scopes if scope.function is None])
            remove_unused_functions(self.index)
            self._run_to_the_end(self.settings.inline_rules, [scope for scope in scopes if scope.function is not None])
            remove_unused_functions(self.index)
        rules = [rule for rule in self.settings.rules if rule not in self.settings.inline_rules and not rule.last]
        self._run_to_the_end(rules, scopes)
        last = [rule for rule in self.settings.rules if rule not in self.settings.inline_rules and rule.last]
        if last:
            self._before_last = self.refusals, len(self.log)
            self._run_to_the_end([*rules, *last], scopes)
        self.splicer.names.forget()

    def _run_to_the_end(self, rules: Sequence[Rule], scopes: Sequence[Scope]) -> None:
        settled = self._settled
        for _ in range(ROUNDS):
            before = len(self.log)
            for rule in rules:
                for scope in scopes:
                    known, place = len(self.log), _place(rule, scope)
                    if settled.get(place) != known and not (rule.once and place in settled):
                        self._refused[place] = {}
                        settled[place] = known
                        if not scope.is_gone:
                            self._run_rule(rule, scope)
            if len(self.log) == before:
                break
        else:
            who, how = "Rules {}", "run them one at a time to find the cause"
            last = dict.fromkeys(step.rule for step in self.log[-len(rules) :])
            if len(last) == 1:
                who, how = "Rule {}", "add a condition that rejects its own output"
            raise RewriteError(f"{who.format(', '.join(last))} did not stop after {ROUNDS} rounds; {how}.")

    def matches(self, rule: Rule, scope: Scope) -> Iterator[Match]:
        """Matches in a scope at which a rule would fire; nothing is rewritten."""
        yield from (match for match, _ in self.proposed_replacements(rule, scope))

    def proposed_replacements(self, rule: Rule, scope: Scope) -> Iterator[tuple[Match, Replacement]]:
        """The same with the replacements."""
        plan = rule.plan(self.settings.target, scope.opset)
        if isinstance(plan, RulePlan):
            for compiled in plan.sources:
                yield from ((match, fragment) for match, _, fragment in self._matches(rule, plan, compiled, scope))

    def _run_rule(self, rule: Rule, scope: Scope) -> None:
        plan = self._plan(rule, scope)
        if plan is None or not self.acceptance.runs(rule):
            return
        for compiled in plan.sources:
            for match, own, fragment in self._matches(rule, plan, compiled, scope):
                self._keep_state(own, match)
                step = self.splicer.apply(match, fragment, own.name)
                self.replay.took(step)
                self._growth += len(step.added) - len(step.removed)
                if self._growth > self._allowed_growth:
                    raise RewriteError(
                        f"Rule {step.rule} makes the model larger without end. Add a condition that rejects its own "
                        "output."
                    )
                if self.progress is not None:
                    self.progress(step.rule, len(self.log))

    def _plan(self, rule: Rule, scope: Scope) -> RulePlan | None:
        """The plan of a rule for a scope; None if it has no form for the target, or if the scope lacks its ops."""
        table, target = self.settings.op_table, self.settings.target
        if table is not None and not table.may_fire(rule, target, scope):
            return None
        place = rule, scope.opset
        if place not in self._plans:
            plan = rule.plan(target, scope.opset)
            self._plans[place] = plan if isinstance(plan, RulePlan) else None
            if table is not None:
                table.learn(rule, target, plan)
        return self._plans[place]

    def _matches(
        self, rule: Rule, plan: RulePlan, compiled: CompiledPattern, scope: Scope
    ) -> Iterator[tuple[Match, Rule, Replacement]]:
        built: list[tuple[Rule, Replacement]] = []
        refused = self._refused.setdefault(_place(rule, scope), {})

        def accept(match: Match) -> bool:
            own = self._rule_of(match, rule)
            if own is None:
                return False
            try:
                self.settings.node_filter.require_allowed(match)
                self.replay.require(own.name, match)
                self._require_new(own, match)
                fragment = self.acceptance.replacement(own, plan, compiled, match)
            except (ConditionFailed, MatchDeclined) as why:
                root = match.root
                label = root.label
                if label not in refused:  # the first refusal at a node is of the best match
                    refused[label] = declined_mismatch(own, match, root, why)
                return False
            built[:] = [(own, fragment)]
            return True

        for match in find(self.index, compiled, scope, accept):
            yield match, *built[0]

    def _rule_of(self, match: Match, rule: Rule) -> Rule | None:
        """The rule of a match: the rule that runs or one that shares its search; None if that one is not selected."""
        if match.rule in ("", rule.name):
            return rule
        return next((other for other in self.settings.rules if other.name == match.rule), None)

    def _require_new(self, rule: Rule, match: Match) -> None:
        """Decline a match of the same nodes as an earlier one at this place, if other rules restored them.

        So rules that undo each other terminate: the result of the last of them in order stays.  Raises RewriteError for
        a rule that writes its own pattern.
        """
        state = self._state(rule, match)
        history = self._seen.get((id(match.scope), match.outputs), [])
        if state is None or state not in history:
            return
        others = dict.fromkeys(name for name, _ in history[history.index(state) + 1 :] if name != rule.name)
        if not others:
            raise RewriteError(
                f"Rule {rule.name} matches its own output at node {match.root.label!r}, so it would never stop. "
                "Add a condition that rejects its output."
            )
        order = [item.name for item in self.settings.rules]
        if order.index(rule.name) < max(map(order.index, others)):
            raise Undone(f"{' and '.join(others)} undid this rewrite before and would undo it again")

    def _keep_state(self, rule: Rule, match: Match) -> None:
        """Record the nodes that a rule is about to replace."""
        state = self._state(rule, match)
        if state is not None:
            self._seen.setdefault((id(match.scope), match.outputs), []).append(state)

    def _state(self, rule: Rule, match: Match) -> State | None:
        """A rule and the nodes that it replaces, without names of inner tensors; None if no loop is possible."""
        if not match.outputs or match.is_original:
            return None  # a step that only removes, or that replaces nodes of the source, cannot repeat forever
        scope, made = match.scope, {name for node in match.nodes for name in node.outputs}
        outside = sorted({name for node in match.nodes for name in node.inputs} - made)
        ops = sorted(node.op for node in match.nodes)
        return rule.name, (*ops, *[self._origin_of(scope, name) for name in outside])

    def _origin_of(self, scope: Scope, name: str, depth: int = DEEPEST) -> str:
        """Name of a tensor in the source, or else the inserted nodes that compute it, as text."""
        node = scope.producers.get(name) if name in self.splicer.inner else None
        if node is None or not depth:
            return name if node is None else node.op
        return f"{node.op}({', '.join(self._origin_of(scope, item, depth - 1) for item in node.inputs)})"

    @property
    def refusals(self) -> list[Mismatch]:
        """Matches that were declined when their rule was last tried.

        Declined matches from before the `last` rules are included if only those rules fired since.
        """
        found = [miss for refused in self._refused.values() for miss in refused.values()]
        earlier, known = self._before_last
        last = {rule.name for rule in self.settings.rules if rule.last}
        if earlier and all(step.rule in last for step in self.log[known:]):
            gone = {node.label for step in self.log[known:] for node in {*step.removed} - {*step.kept.values()}}
            reported = {(miss.rule, miss.node) for miss in found}
            found += [miss for miss in earlier if miss.node not in gone and (miss.rule, miss.node) not in reported]
        return found

    @property
    def blocked_by_opset(self) -> dict[int, dict[str, int]]:
        """By newer opset, oldest first: how often each rule would fire with it."""
        found: dict[int, dict[str, int]] = {}
        for miss in self.refusals:
            if miss.opset:
                rules = found.setdefault(miss.opset, {})
                rules[miss.rule] = rules.get(miss.rule, 0) + 1
        return dict(sorted(found.items()))

    def misses(self, named: Collection[str]) -> list[Mismatch]:
        """Refusals, and for each of the named rules why it found nothing, or its near misses after the run.

        Nodes that the run inserted are omitted, because the user does not know them.
        """
        misses = [miss for miss in self.refusals if not miss.of_written or miss.opset]
        fired = {step.rule for step in self.log}
        history = OpHistory(self.index, self.log)
        for rule in (rule for rule in self.settings.rules if rule.name in named):
            found = near_misses(self.index, rule, self.settings.target, self.settings.ep, has_fired=rule.name in fired)
            found = [miss for miss in found if not miss.of_written]
            reported = {miss.node for miss in misses if miss.rule == rule.name}
            near = nearest([miss for miss in found if miss.near and miss.node not in reported])
            if not near and rule.name not in fired and not reported:
                there = already_fused_mismatch(self.index, rule, self.settings.target)
                near = [history.annotate(miss) for miss in found[:1]] if there is None else [there]
            misses += near
        return misses


def _place(rule: Rule, scope: Scope) -> tuple[int, int]:
    """A key of a rule in a scope; rules of one search run together if they run once."""
    return id(rule.search.find if rule.once and rule.search is not None else rule), id(scope)


class Undone(ConditionFailed):
    """A match that another rule would restore.  It is reported although the run inserted its nodes."""


def declined_mismatch(rule: Rule, match: Match, root: Node, why: ConditionFailed | MatchDeclined) -> Mismatch:
    """A declined match as a mismatch."""
    finding = why.finding if isinstance(why, MatchDeclined) else None
    kind = finding.kind if finding is not None else ""
    miss = Mismatch(
        rule.name,
        match.pattern.name,
        root.label,
        reason=str(why),
        where=match.pattern.where,
        matched=len(match.nodes),
        kind=kind,
        change=finding.change if finding is not None and not finding.opset else "",  # the reason has that of an opset
        scope=match.scope.label,
        opset=finding.opset if finding is not None else 0,
        assumption=finding.assumption if finding is not None else "",
        of_written=not (match.is_original or isinstance(why, Undone) or kind == "error"),
    )
    return mark_near(miss, root)
