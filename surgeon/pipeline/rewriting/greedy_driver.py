"""Runs rules over an index to a fixed point and keeps the edit log; knows nothing of files."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from onnx import FunctionProto

from surgeon.errors import ConditionFailed, RewriteError
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.pipeline.acceptance.already_fused import present
from surgeon.pipeline.acceptance.match_acceptance import MatchAcceptance, MatchDeclined
from surgeon.pipeline.acceptance.near_misses import mark_near, near_misses, nearest
from surgeon.pipeline.acceptance.op_history import OpHistory
from surgeon.pipeline.rewriting.step_replay import Replay
from surgeon.rules.functions.inline_rules import remove_unused_functions
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.matcher import Match, find
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.replacing.replacement import Replacement
from surgeon.rules.replacing.splicer import RewriteStep, Splicer
from surgeon.rules.rule import Rule, RulePlan
from surgeon.text import did_you_mean as nearest_name

ROUNDS = 50
GROWTH, GROWTH_FREE = 20, 5000  # nodes that rules may add: per node of the source, and in any case

DEEPEST = 4  # nodes of rules that are followed back to tell a tensor from another

Progress = Callable[[str, int], None]
State: TypeAlias = tuple[str, tuple[str, ...]]


@dataclass(slots=True)
class NodeFilter:
    """Which nodes to rewrite: shell patterns of node names."""

    only: Sequence[str] = ()
    """If given, a match needs a node that one of these matches."""
    skip: Sequence[str] = ()
    """A match with a node that one of these matches is declined."""

    def unused(self, index: Index) -> dict[str, str]:
        """The patterns that match no name of a node or an initializer, each with a clause on the nearest names."""
        patterns = (*self.only, *self.skip)
        labels: dict[str, None] = {}
        for scope in index.scopes if patterns else ():
            stored = [] if isinstance(scope.proto, FunctionProto) else scope.proto.initializer
            labels.update(dict.fromkeys([*(node.label for node in scope.nodes), *(item.name for item in stored)]))
        strange = (item for item in patterns if not any(fnmatchcase(name, item) for name in labels))
        return {item: nearest_name(item, labels) for item in strange}

    def require_allowed(self, match: Match) -> None:
        """Raise ConditionFailed for a match that is not wanted."""
        if not self.only and not self.skip:
            return
        names = [node.label for node in match.nodes] or list(match.outputs)
        if self.only and not any(fnmatchcase(name, item) for name in names for item in self.only):
            raise ConditionFailed("it is left out by --only")
        if any(fnmatchcase(name, item) for name in names for item in self.skip):
            raise ConditionFailed("it is left out by --skip")


@dataclass(slots=True)
class GreedyDriver:
    """One run over one index.

    inline_rules: those of the rules that run before the others, and write out calls of local functions.  ep: the
    execution provider, as for `Acceptance.over`; log: the steps taken, in order.
    """

    index: Index
    rules: Sequence[Rule]
    target: str
    node_filter: NodeFilter = field(default_factory=NodeFilter)
    progress: Progress | None = None
    replay: Replay = field(default_factory=Replay)
    ep: str | None = None
    inline_rules: Sequence[Rule] = ()
    splicer: Splicer = field(init=False)
    acceptance: MatchAcceptance = field(init=False)
    _seen: dict[Any, list[State]] = field(default_factory=dict)  # what rules replaced, by place
    _refused: dict[tuple[int, int], dict[str, Mismatch]] = field(default_factory=dict)
    _settled: dict[tuple[int, int], int] = field(default_factory=dict)  # how long the log was when a rule found nothing
    _before_last: tuple[list[Mismatch], int] = ([], 0)
    _growth: int = 0
    _allowed_growth: int = 0

    def __post_init__(self) -> None:
        self.splicer = Splicer(self.index)
        self.replay.wrote = self.splicer.step_of
        self.acceptance = MatchAcceptance.over(self.index, self.target, self.ep, self.splicer)

    @property
    def log(self) -> list[RewriteStep]:
        """The steps taken."""
        return self.splicer.steps

    def run(self) -> None:
        """Rewrite until nothing matches any more.  Raises RewriteError where a rule finds no end."""
        self._allowed_growth = GROWTH * sum(len(scope.nodes) for scope in self.index.scopes) + GROWTH_FREE
        scopes = self.index.scopes
        if self.inline_rules:  # a function that nobody calls any more is spared what is done to functions
            self._run_to_the_end(self.inline_rules, [scope for scope in scopes if scope.function is None])
            remove_unused_functions(self.index)
            self._run_to_the_end(self.inline_rules, [scope for scope in scopes if scope.function is not None])
            remove_unused_functions(self.index)
        rules = [rule for rule in self.rules if rule not in self.inline_rules and not rule.last]
        self._run_to_the_end(rules, scopes)
        last = [rule for rule in self.rules if rule not in self.inline_rules and rule.last]
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
                    known, place = len(self.log), (id(rule), id(scope))
                    if settled.get(place) != known:
                        self._refused[place] = {}
                        settled[place] = known
                        if not scope.is_gone:
                            self._run_rule(rule, scope)
            if len(self.log) == before:
                break
        else:
            who, how = "Rules {}", "run them one at a time to see which"
            last = dict.fromkeys(step.rule for step in self.log[-len(rules) :])
            if len(last) == 1:
                who, how = "Rule {}", "give it a condition that spares what it writes itself"
            raise RewriteError(f"{who.format(', '.join(last))} found no end in {ROUNDS} rounds; {how}.")

    def matches(self, rule: Rule, scope: Scope) -> Iterator[Match]:
        """Where a rule would fire in a scope, without firing."""
        yield from (match for match, _ in self.proposed_replacements(rule, scope))

    def proposed_replacements(self, rule: Rule, scope: Scope) -> Iterator[tuple[Match, Replacement]]:
        """Where a rule would fire in a scope, and what it would write, without writing it."""
        plan = rule.plan(self.target, scope.opset)
        if isinstance(plan, RulePlan):
            for compiled in plan.sources:
                yield from self._matches(rule, plan, compiled, scope)

    def _run_rule(self, rule: Rule, scope: Scope) -> None:
        plan = rule.plan(self.target, scope.opset)
        if not isinstance(plan, RulePlan) or not self.acceptance.runs(rule):
            return
        for compiled in plan.sources:
            for match, fragment in self._matches(rule, plan, compiled, scope):
                self._keep_state(rule, match)
                step = self.splicer.apply(match, fragment, rule.name)
                self.replay.took(step)
                self._growth += len(step.added) - len(step.removed)
                if self._growth > self._allowed_growth:
                    raise RewriteError(
                        f"Rule {rule.name} makes the model grow without end; give it a condition that spares what it "
                        "writes itself."
                    )
                if self.progress is not None:
                    self.progress(rule.name, len(self.log))

    def _matches(
        self, rule: Rule, plan: RulePlan, compiled: CompiledPattern, scope: Scope
    ) -> Iterator[tuple[Match, Replacement]]:
        built: list[Replacement] = []
        refused = self._refused.setdefault((id(rule), id(scope)), {})

        def accept(match: Match) -> bool:
            try:
                self.node_filter.require_allowed(match)
                self.replay.require(rule.name, match)
                self._require_new(rule, match)
                fragment = self.acceptance.replacement(rule, plan, compiled, match)
            except (ConditionFailed, MatchDeclined) as why:
                root = match.root
                label = root.label
                if label not in refused:  # the first refusal at a place is of the way that fits it best
                    refused[label] = declined_mismatch(rule, match, root, why)
                return False
            built[:] = [fragment]
            return True

        for match in find(self.index, compiled, scope, accept):
            yield match, built[0]

    def _require_new(self, rule: Rule, match: Match) -> None:
        """Refuse a match that a place had before, of which the rules in between made the same again.

        So rules that undo each other come to an end: what the last of them in order writes stays.  Raises RewriteError
        for one rule that writes what it looks for.
        """
        state = self._state(rule, match)
        history = self._seen.get((id(match.scope), match.outputs), [])
        if state is None or state not in history:
            return
        others = dict.fromkeys(name for name, _ in history[history.index(state) + 1 :] if name != rule.name)
        if not others:
            raise RewriteError(
                f"Rule {rule.name} writes what it looks for, at {match.root.label!r}, and so never ends; "
                "give it a condition that tells the two apart."
            )
        order = [item.name for item in self.rules]
        if order.index(rule.name) < max(map(order.index, others)):
            raise Undone(f"{' and '.join(others)} would undo it, and did so here before")

    def _keep_state(self, rule: Rule, match: Match) -> None:
        """Note what a rule is about to replace."""
        state = self._state(rule, match)
        if state is not None:
            self._seen.setdefault((id(match.scope), match.outputs), []).append(state)

    def _state(self, rule: Rule, match: Match) -> State | None:
        """A rule and what it replaces, whatever inner tensors are called; None where that comes to an end by itself."""
        if not match.outputs or match.is_original:
            return None  # what only takes out comes to an end
        scope, made = match.scope, {name for node in match.nodes for name in node.outputs}
        outside = sorted({name for node in match.nodes for name in node.inputs} - made)
        ops = sorted(node.op for node in match.nodes)
        return rule.name, (*ops, *[self._origin_of(scope, name) for name in outside])

    def _origin_of(self, scope: Scope, name: str, depth: int = DEEPEST) -> str:
        """A tensor by its name in the source, or by the nodes of rules that make it of such."""
        node = scope.producers.get(name) if name in self.splicer.inner else None
        if node is None or not depth:
            return name if node is None else node.op
        return f"{node.op}({', '.join(self._origin_of(scope, item, depth - 1) for item in node.inputs)})"

    @property
    def refusals(self) -> list[Mismatch]:
        """The matches that were found last and had to stay as they are.

        Those that were found before the last rules are told on, where only these fired since: they took what was left.
        """
        found = [miss for refused in self._refused.values() for miss in refused.values()]
        earlier, known = self._before_last
        last = {rule.name for rule in self.rules if rule.last}
        if earlier and all(step.rule in last for step in self.log[known:]):
            told = {(miss.rule, miss.node) for miss in found}
            found += [miss for miss in earlier if (miss.rule, miss.node) not in told]
        return found

    @property
    def blocked_by_opset(self) -> dict[int, dict[str, int]]:
        """How often each rule would fire with a newer opset, by that opset, the oldest first."""
        found: dict[int, dict[str, int]] = {}
        for miss in self.refusals:
            if miss.opset:
                rules = found.setdefault(miss.opset, {})
                rules[miss.rule] = rules.get(miss.rule, 0) + 1
        return dict(sorted(found.items()))

    def misses(self) -> list[Mismatch]:
        """For each rule why it found nothing, or where it nearly matched, in the model as it is now.

        Of nodes that the run itself wrote nothing is said: they are in no file that the user knows.
        """
        misses = [miss for miss in self.refusals if not miss.of_written or miss.opset]
        fired = {step.rule for step in self.log}
        turned = OpHistory(self.index, self.log)
        for rule in self.rules:
            found = near_misses(self.index, rule, self.target, self.ep, has_fired=rule.name in fired)
            found = [miss for miss in found if not miss.of_written]
            told = {miss.node for miss in misses if miss.rule == rule.name}
            near = nearest([miss for miss in found if miss.near and miss.node not in told])
            if not near and rule.name not in fired and not told:
                there = present(self.index, rule, self.target)
                near = [turned.annotate(miss) for miss in found[:1]] if there is None else [there]
            misses += near
        return misses


class Undone(ConditionFailed):
    """A match that another rule would bring back; its nodes are of the run, and it is reported all the same."""


def declined_mismatch(rule: Rule, match: Match, root: Node, why: ConditionFailed | MatchDeclined) -> Mismatch:
    """A match that was found and must stay as it is."""
    finding = why.finding if isinstance(why, MatchDeclined) else None
    miss = Mismatch(
        rule.name,
        match.pattern.name,
        root.label,
        reason=str(why),
        where=match.pattern.where,
        matched=len(match.nodes),
        kind=finding.kind if finding is not None else "",
        scope=match.scope.label,
        opset=finding.opset if finding is not None else 0,
        of_written=not match.is_original and not isinstance(why, Undone),
    )
    return mark_near(miss, root)
