"""Runs rules over an index to a fixed point and keeps the edit log; knows nothing of files."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import onnx

from surgeon.errors import OpsetError, Refused, RewriteError, RuleError, SurgeonError
from surgeon.indexing.index import Index
from surgeon.indexing.scope import Scope
from surgeon.matching.compile import Compiled
from surgeon.matching.match import Match, Mismatch, anchors, climb, find, match_at
from surgeon.matching.state import Trace
from surgeon.ops.node_check import check_node
from surgeon.ops.schemas import schema
from surgeon.rewriting.fragment import Fragment, build, call_with_captures
from surgeon.rewriting.result import Miss, miss_of
from surgeon.rewriting.rule import Plan, Rule, broken
from surgeon.rewriting.splice import Splicer, Step, import_version

ROUNDS = 50
GROWTH, GROWTH_FREE = 20, 5000  # nodes that rules may add: per node of the source, and in any case
TOLD = 5  # near misses of a rule that fired elsewhere
EXPLAINED = 32  # nodes at which a rule that found nothing is tried again to say why

Progress = Callable[[str, int], None]


@dataclass(slots=True)
class Choice:
    """Which places to rewrite: shell patterns over node names."""

    only: Sequence[str] = ()
    skip: Sequence[str] = ()

    def require_allowed(self, match: Match) -> None:
        """Raise Refused for a match that is not wanted."""
        if not self.only and not self.skip:
            return
        names = [node.label for node in match.nodes]
        if self.only and not any(fnmatchcase(name, item) for name in names for item in self.only):
            raise Refused("it is left out by --only")
        if any(fnmatchcase(name, item) for name in names for item in self.skip):
            raise Refused("it is left out by --skip")


@dataclass(slots=True)
class Driver:
    """One run over one index.  log: the steps taken, in order.  misses: rules that found nothing, and near misses."""

    index: Index
    rules: Sequence[Rule]
    target: str
    choice: Choice = field(default_factory=Choice)
    progress: Progress | None = None
    misses: list[Miss] = field(default_factory=list)
    _splicer: Splicer | None = None
    _cache: dict[Any, Fragment] = field(default_factory=dict)
    _by_dtype: set[Any] = field(default_factory=set)
    _seen: dict[Any, list[str]] = field(default_factory=dict)
    _refused: dict[tuple[str, str], Miss] = field(default_factory=dict)
    _growth: int = 0
    _allowed_growth: int = 0
    _checked: dict[Any, Fragment] = field(default_factory=dict)  # keeps what it knows by id alive

    @property
    def log(self) -> list[Step]:
        """The steps taken."""
        return self.splicer.steps

    @property
    def splicer(self) -> Splicer:
        """The one editor of this run."""
        if self._splicer is None:
            self._splicer = Splicer(self.index)
        return self._splicer

    def run(self) -> None:
        """Rewrite until nothing matches any more.  Raises RewriteError when rules undo each other."""
        self._allowed_growth = GROWTH * sum(len(scope.nodes) for scope in self.index.scopes) + GROWTH_FREE
        for _ in range(ROUNDS):
            before = len(self.log)
            self._refused.clear()
            for rule in self.rules:
                for scope in self.index.scopes:
                    if not scope.is_gone:
                        self._run_rule(rule, scope)
            if len(self.log) == before:
                break
        else:
            names = ", ".join(dict.fromkeys(step.rule for step in self.log[-len(self.rules) :]))
            raise RewriteError(f"Rules {names} found no end in {ROUNDS} rounds; run them one at a time to see which.")
        self._explain()

    def matches(self, rule: Rule, scope: Scope) -> Iterator[Match]:
        """Where a rule would fire in a scope, without firing."""
        plan = rule.plan(self.target, scope.opset)
        if not isinstance(plan, str):
            for compiled in plan.sources:
                yield from (match for match, _ in self._matches(rule, plan, compiled, scope))

    def _run_rule(self, rule: Rule, scope: Scope) -> None:
        plan = rule.plan(self.target, scope.opset)
        if isinstance(plan, str):
            return
        for compiled in plan.sources:
            for match, fragment in self._matches(rule, plan, compiled, scope):
                self._guard_loop(rule, match)
                step = self.splicer.apply(match, fragment, rule.name)
                self._growth += len(step.added) - len(step.removed)
                if self._growth > self._allowed_growth:
                    raise RewriteError(
                        f"Rule {rule.name} makes the model grow without end; give it a condition that spares what it "
                        "writes itself."
                    )
                if self.progress is not None:
                    self.progress(rule.name, len(self.log))

    def _matches(self, rule: Rule, plan: Plan, compiled: Compiled, scope: Scope) -> Iterator[tuple[Match, Fragment]]:
        built: list[Fragment] = []

        def accept(match: Match) -> bool:
            try:
                self.choice.require_allowed(match)
                for condition in rule.conditions:
                    call_with_captures(condition, match)
                if plan.needs is not None:
                    raise Refused(self._too_old(scope, plan.needs))
                fragment = self._fragment(plan, compiled, match)
                self._check_new(match, fragment)
                self.splicer.require_writable(match, fragment)
            except (Refused, OpsetError) as refusal:
                key = (rule.name, match.root.label)
                where = compiled.pattern.where
                self._refused[key] = Miss(rule.name, match.root.label, str(refusal), where, len(match.nodes))
                return False
            except RuleError as error:
                raise RuleError(f"Rule {rule.name} ({rule.where}): {error}") from error
            except SurgeonError:
                raise
            except Exception as error:
                raise RewriteError(
                    f"{broken(rule.name, error)} at node {match.root.label!r}; mend the rule."
                ) from error
            built[:] = [fragment]
            return True

        for match in find(self.index, compiled, scope, accept):
            yield match, built[0]

    def _too_old(self, scope: Scope, needs: int) -> str:
        wants = f"the form for target {self.target} needs opset {needs}"
        if scope.function is not None:
            return f"{wants} and {scope.function.label} has {scope.opset}, its own; export it at a newer one"
        return f"{wants} and the model has {scope.opset}; raise it with: surgeon upgrade IN OUT --opset {needs}"

    def _fragment(self, plan: Plan, compiled: Compiled, match: Match) -> Fragment:
        """The replacement; built once for all matches that bind the same captures when it looks at dtypes at most."""
        captures = tuple([(name,) if held is None else name for name, held in match.bound.items()])
        kind = (plan.form.function, compiled.pattern, match.scope.opset, id(match.scope.versions), captures)
        key = (kind, self._dtypes(match) if kind in self._by_dtype else ())
        if key in self._cache:
            return self._cache[key]
        match.inspected = match.asked_dtype = False
        fragment = build(plan.form.function, match)
        numbers = any(isinstance(held, tuple) for held in match.bound.values())
        if not match.inspected and not numbers:
            if match.asked_dtype:
                self._by_dtype.add(kind)
                key = (kind, self._dtypes(match))
            self._cache[key] = fragment
        return fragment

    def _dtypes(self, match: Match) -> tuple[int | None, ...]:
        types, scope = self.index.types, match.scope
        return tuple([types.dtype(scope, held) for held in match.bound.values() if isinstance(held, str)])

    def _check_new(self, match: Match, fragment: Fragment) -> None:
        """Refuse a replacement whose nodes break their schemas, before anything is edited."""
        scope, types = match.scope, self.index.types
        dtypes = {key: types.dtype(scope, match.tensor(key)) for key in fragment.captures}
        key = (id(fragment), tuple(dtypes.values()), scope.opset)
        if key in self._checked:
            return
        for node in fragment.as_protos():
            known = {str(capture): dtype for capture, dtype in dtypes.items()}
            opset = scope.versions.get(node.domain) or import_version(node.domain, node.op_type)
            complaints = check_node(node, opset, known.get, scope.function is not None)
            if complaints:
                _refuse_at_any_opset(node, scope.function is not None)
                raise Refused(f"what would be written breaks its schema: {complaints[0]}")
        self._checked[key] = fragment

    def _guard_loop(self, rule: Rule, match: Match) -> None:
        """Two rules that undo each other meet the same place in the same state again."""
        if not any(node.step is not None for node in match.nodes):
            return
        made = {name for node in match.nodes for name in node.outputs}
        outside = tuple(sorted({name for node in match.nodes for name in node.inputs} - made))
        ops = tuple(sorted(node.op for node in match.nodes))
        place = (id(match.scope), match.outputs)
        history = self._seen.setdefault(place, [])
        state = f"{rule.name}|{ops}|{outside}"
        if state in history:
            names = dict.fromkeys(item.partition("|")[0] for item in history[history.index(state) :])
            if len(names) == 1:
                raise RewriteError(
                    f"Rule {rule.name} writes what it looks for, at {match.root.label!r}, and so never ends; "
                    "give it a condition that tells the two apart."
                )
            raise RewriteError(
                f"Rules {' and '.join(names)} undo each other at {match.root.label!r}; run them one at a time."
            )
        history.append(state)

    def _explain(self) -> None:
        """For each rule say why it found nothing, or where it nearly matched."""
        self.misses = list(self._refused.values())
        fired = {step.rule for step in self.log}
        for rule in self.rules:
            found = list(self._near_misses(rule))
            told = {miss.node for miss in self.misses if miss.rule == rule.name}
            if rule.name in fired or told:
                near = [miss for miss in found if miss.matched > 1 and miss.node not in told]
                self.misses += [miss_of(rule.name, miss) for miss in _deepest(near)]
            elif found:
                self.misses.append(miss_of(rule.name, max(found, key=lambda miss: miss.matched)))

    def _near_misses(self, rule: Rule) -> Iterator[Mismatch]:
        """The deepest miss at each of the first candidates left in the model, or what is not there at all."""
        absent: Mismatch | None = None
        candidates = 0
        for scope in self.index.scopes:
            plan = rule.plan(self.target, scope.opset) if not scope.is_gone else None
            if isinstance(plan, str):
                absent = Mismatch(rule.name, "", plan, rule.where, 0)
            if plan is None or isinstance(plan, str):
                continue
            for compiled in plan.sources:
                for miss in explain(self.index, compiled, scope):
                    candidates += bool(miss.node)
                    if miss.node:
                        yield miss
                    elif absent is None:
                        absent = miss
                    if candidates >= EXPLAINED:
                        return
        if not candidates and absent is not None:
            yield absent


def _deepest(misses: Sequence[Mismatch]) -> list[Mismatch]:
    """The few misses that came furthest, one of each reason."""
    found: dict[str, Mismatch] = {}
    for miss in sorted(misses, key=lambda miss: -miss.matched):
        found.setdefault(miss.reason, miss)
    return list(found.values())[:TOLD]


def _refuse_at_any_opset(node: onnx.NodeProto, in_function: bool) -> None:
    """Raise RuleError for a node that is wrong whatever the model: the rule is to blame."""
    newest = schema(node.domain, node.op_type, None)
    complaints = check_node(node, newest.since_version if newest else 1, lambda _: None, in_function)
    if complaints:
        raise RuleError(f"What the rule writes breaks its schema: {complaints[0].rstrip('.')}; mend the rule.")


def explain(index: Index, compiled: Compiled, scope: Scope) -> Iterator[Mismatch]:
    """Why a pattern does not match: the deepest miss at each node where it could start."""
    missing: list[frozenset[str]] = [
        group for group in compiled.required if not any(n.alive for op in group for n in scope.by_op.get(op, ()))
    ]
    if missing:
        smallest: frozenset[str] = min(missing, key=len)
        wanted = " or ".join(sorted(smallest))
        yield Mismatch(compiled.pattern.name, "", f"there is no {wanted} in the model", compiled.pattern.where, 0)
        return
    roots = {id(root): root for anchor in anchors(compiled, scope) for root in climb(scope, compiled, anchor)}
    if not roots:  # the rarest op lies nowhere near: begin where the pattern ends
        heads = sorted(compiled.heads[0] or ())
        roots = {id(node): node for op in heads for node in scope.by_op.get(op, ()) if node.alive}
    for root in roots.values():
        trace = Trace()
        if match_at(index, compiled, root, None, trace) is None and trace.depth >= 0:
            yield Mismatch(compiled.pattern.name, root.label, trace.reason, trace.where, trace.depth)
