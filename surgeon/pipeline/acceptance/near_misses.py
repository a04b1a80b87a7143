"""Near misses of a rule: the furthest failure at each node at which a pattern could start."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from surgeon.errors import SurgeonError, Unavailable
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas import history, knows_domain, operators
from surgeon.pipeline.acceptance.match_acceptance import MatchAcceptance, MatchDeclined, provider_mismatch
from surgeon.rules.matching.anchors import nodes_matching_glob
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.op_requirements import by_rarity
from surgeon.rules.matching.pattern import Pattern
from surgeon.rules.mismatches.candidate_roots import candidate_roots, op_neighbourhood, pattern_size
from surgeon.rules.mismatches.furthest_failure import FurthestFailure, furthest_failure
from surgeon.rules.mismatches.mismatch import KINDS_AT_UNMATCHED_NODE, MatchFailure, Mismatch
from surgeon.rules.rule import Rule, RulePlan
from surgeon.text import close_matches

Accept = Callable[[Match], object]  # raises MatchDeclined for a match that may not be rewritten
TRIED, COUNTED = 32, 256  # maximum numbers of explained roots, for a rule that did not fire and for one that did
FAR = 2  # roots of one neighbourhood far from a match, after which the others are skipped
MAX_REPORTED = 5  # maximum number of different near misses of a rule


def group_equal(misses: Iterable[Mismatch]) -> list[Mismatch]:
    """Near misses, nearest first; equal ones become one that names the other nodes."""
    groups: dict[tuple[object, ...], list[Mismatch]] = {}
    for miss in misses:
        key = (miss.rule, miss.pattern, miss.where, miss.kind, miss.wanted, miss.found, miss.matched, bool(miss.change))
        groups.setdefault(key, []).append(miss)
    grouped = [replace(first, others=tuple(miss.node for miss in rest)) for first, *rest in groups.values()]
    return sorted(grouped, key=nearness)


def mark_near(miss: Mismatch, root: Node) -> Mismatch:
    """The mismatch, marked as near if at least half of the pattern fits, and more than the op of the root.

    A root of an unknown op is always near: it is a placeholder that the rule is for.
    """
    if miss.kind == "target":  # the rule is for another provider
        return miss
    is_placeholder = not knows_domain(split_op(root.op)[0]) and miss.kind not in KINDS_AT_UNMATCHED_NODE
    return replace(miss, near=is_placeholder or miss.kind == "error" or (miss.matched > 1 and is_near(miss)))


def is_near(miss: Mismatch) -> bool:
    """Whether at least half of the pattern fits."""
    return 2 * miss.matched >= miss.total


def nearness(miss: Mismatch) -> tuple[float, int]:
    """Sort key: nearest first."""
    return -miss.matched / max(miss.total, 1), -miss.matched


def nearest(misses: Sequence[Mismatch]) -> list[Mismatch]:
    """The few nearest mismatches, one for each reason."""
    return group_equal(misses)[:MAX_REPORTED]


@dataclass(slots=True)
class Explainer:
    """Explains why patterns of one rule do not match in one model. Edits nothing."""

    index: Index
    """Model that is explained."""
    rule: str
    """Name of the rule."""
    covered: set[Node] = field(default_factory=set)
    """Nodes that an earlier near miss explains, or at which the rule fires."""

    def misses_at(
        self, compiled: CompiledPattern, scope: Scope, roots: Iterable[Node], accept: Accept | None = None
    ) -> "list[NearMissSite]":
        """The furthest failure at each root that no earlier one explains."""
        places = (self.miss_at(compiled, scope, root, accept) for root in roots)
        return [place for place in places if place is not None]

    def miss_at(
        self, compiled: CompiledPattern, scope: Scope, root: Node, accept: Accept | None = None, has_fired: bool = False
    ) -> "NearMissSite | None":
        """The furthest failure at one root; None if an earlier one explains it, or the pattern matches.

        has_fired: as for `near_misses`.
        """
        best = self._attempt(compiled, root, accept) if root not in self.covered else None
        if best is None:
            return None
        miss = as_mismatch(self.rule, compiled.pattern, scope, root=root, best=best)
        miss = replace(miss, of_written=_is_of_inserted(scope, best))
        has_all = has_fired or all(scope.has_any(group) for group in compiled.written_ops.required)
        miss = mark_near(miss, root) if has_all else miss
        is_said = best.is_whole or (best.is_certain and len(set(best.nodes)) <= miss.total)
        if is_said and best.also is None:  # if two things are wrong, another pattern may have only one of them
            self.covered.update(best.nodes)
        return NearMissSite(miss, best, root)

    def _attempt(self, compiled: CompiledPattern, root: Node, accept: Accept | None) -> FurthestFailure | None:
        """The furthest failure of a pattern at a node; None if it matches and may be rewritten."""

        def refuse(match: Match, is_at_fault: bool) -> MatchFailure | None:
            """Why a match is declined.  is_at_fault: the match is partial, so the rule may raise."""
            try:
                if accept is not None:
                    accept(match)
            except MatchDeclined as declined:
                is_error = declined.finding.kind == "error"
                return replace(declined.finding, kind="condition") if is_at_fault and is_error else declined.finding
            except SurgeonError as error:
                if not is_at_fault:
                    raise
                return MatchFailure("condition", "", "", seen="", message=str(error), where=compiled.pattern.where)
            return None

        return None if compiled.search is not None else furthest_failure(self.index, compiled, root, refuse)


class NearMissSite(NamedTuple):
    """A node at which a pattern could start, and why it does not match there."""

    miss: Mismatch
    """The failure as data."""
    best: FurthestFailure
    """Partial match that came furthest."""
    root: Node
    """Node at which the pattern could start."""

    def order(self) -> tuple[object, ...]:
        """Sort key: nearest first, then one failure before two, certain before uncertain, few nodes before many."""
        best = self.best
        return *nearness(self.miss), best.also is not None, not best.is_certain, len(set(best.nodes)), self.root.slot


def without_overlaps(found: Iterable[NearMissSite], taken: Iterable[Node] = ()) -> Iterator[Mismatch]:
    """The mismatches, nearest first, without those that overlap a nearer one.  taken: nodes of sites."""
    seen = set(taken)
    for place in sorted(found, key=NearMissSite.order):
        if 2 * len(seen.intersection(place.best.nodes)) <= len(place.best.nodes) and place.root not in seen:
            seen.update(place.best.nodes)
            yield place.miss


def accept_by(acceptance: MatchAcceptance, rule: Rule, plan: RulePlan, compiled: CompiledPattern) -> Accept:
    """A function that accepts the matches that a rewrite would accept."""
    return lambda match: acceptance.replacement(rule, plan, compiled, match)


def as_mismatch(rule: str, pattern: Pattern, scope: Scope, root: Node, best: FurthestFailure) -> Mismatch:
    """A failure as a mismatch.  A node with a failure does not count as matched."""
    finding, total = best.finding, pattern_size(pattern, best.made)
    matched = total if best.is_whole else max(0, min(best.matched, total - 1, _count_fitting(best)))
    return Mismatch(
        rule=rule,
        pattern=pattern.name,
        node=root.label,
        reason=finding.sentence,
        where=finding.where or pattern.where,
        matched=matched,
        total=total,
        kind=finding.kind,
        wanted=finding.wanted,
        found=finding.found,
        change=finding.change if best.is_only else "",
        op=finding.op,
        at=finding.at,
        also=best.also.sentence if best.also is not None else "",
        scope=scope.label,
        opset=finding.opset if best.is_only else 0,
    )


def _is_of_inserted(scope: Scope, best: FurthestFailure) -> bool:
    """Whether a rule inserted one of the matched nodes or the node with the failure."""
    if any(node.encoded is not None for node in best.nodes):
        return True
    at = best.finding.at
    home = scope.defining_scope(at) if at else None
    maker = None if home is None else home.producers.get(at)
    named = [maker] if maker is not None else [node for node in scope.live_nodes() if at and node.label == at]
    return any(node.encoded is not None for node in named)


def _count_fitting(best: FurthestFailure) -> int:
    """Number of nodes of the model that fit."""
    wrong = [best.finding] if best.also is None else [best.also]
    taken = sum(finding.kind not in KINDS_AT_UNMATCHED_NODE for finding in wrong)
    if best.is_only or best.also is not None:
        taken = 1 + taken * (best.also is not None)  # the tolerated failure is at one of the nodes
    return len(set(best.nodes)) - taken


def near_misses(
    index: Index, rule: Rule, target: str, ep: str | None = None, *, has_fired: bool = False
) -> list[Mismatch]:
    """The furthest failure at each of the first possible roots of a rule; else an op that the model lacks.

    has_fired: the rule fired elsewhere, and may have consumed all nodes of the rarest op.
    """
    explainer, acceptance = Explainer(index, rule.name), MatchAcceptance.over(index, target, ep)
    if not acceptance.runs(rule):
        return [
            Mismatch(
                rule.name,
                "",
                "",
                reason=provider_mismatch(rule),
                where=rule.where,
                matched=0,
                kind="target",
                wanted=rule.ep or "",
            )
        ]
    found: list[NearMissSite] = []
    far = Counter[tuple[int, tuple[object, ...]]]()  # roots that were far from a match, by pattern and neighbourhood
    for scope, plan in rule_plans(index, rule, target):
        for compiled in plan.sources:
            accept = partial(_accept_or_decline, accept_by(acceptance, rule, plan, compiled))
            starts = candidate_roots(compiled, scope, 1, may_lack=has_fired)
            looked = ((root, (id(compiled), op_neighbourhood(root))) for root in starts)
            likely = ((root, look) for root, look in looked if far[look] < FAR)
            for root, look in islice(likely, max(0, (COUNTED if has_fired else TRIED) - len(found))):
                place = explainer.miss_at(compiled, scope, root, accept=accept, has_fired=has_fired)
                if place is not None:
                    far[look] += not (place.miss.near or place.best.is_whole)
                    found.append(place)
    return list(without_overlaps(found)) or list(islice(missing_ops(index, rule, target), 1))


def misses_of_pattern(index: Index, compiled: CompiledPattern, scope: Scope) -> Iterator[Mismatch]:
    """Why a pattern does not match: the furthest failure at each possible root."""
    missing = _absent_op(index, "", compiled, [scope])
    if missing is not None and next(candidate_roots(compiled, scope, 1), None) is None:
        yield missing
    else:
        yield from without_overlaps(
            Explainer(index, "").misses_at(compiled, scope, candidate_roots(compiled, scope, 1))
        )


def _accept_or_decline(accept: Accept, match: Match) -> object:
    """As `accept`, but an error of the rule declines the match, because a rewrite would not try it."""
    try:
        return accept(match)
    except SurgeonError as error:
        raise MatchDeclined(
            MatchFailure("condition", "", "", seen="", message=str(error), where=match.pattern.where)
        ) from error


def rule_plans(index: Index, rule: Rule, target: str) -> Iterator[tuple[Scope, RulePlan]]:
    """Scopes for which a rule has a plan."""
    for scope in index.scopes:
        plan = rule.plan(target, scope.opset) if not scope.is_gone else None
        if isinstance(plan, RulePlan):
            yield scope, plan


def missing_ops(index: Index, rule: Rule, target: str) -> Iterator[Mismatch]:
    """For each pattern of a rule, an op or combination of ops that the model lacks."""
    found = list(rule_plans(index, rule, target))
    if not found:
        plan = rule.plan(target, index.main.opset)
        reason = plan.reason if isinstance(plan, Unavailable) else f"rule {rule.name} does not support target {target}"
        yield Mismatch(rule.name, "", "", reason=reason, where=rule.where, matched=0, kind="target", wanted=target)
    scopes: dict[int, tuple[CompiledPattern, list[Scope]]] = {}
    for scope, plan in found:
        for compiled in plan.sources:
            scopes.setdefault(id(compiled), (compiled, []))[1].append(scope)
    for compiled, among in scopes.values():
        miss = _absent_op(index, rule.name, compiled, among)
        if miss is not None:
            yield miss


def _absent_op(index: Index, rule: str, compiled: CompiledPattern, scopes: list[Scope]) -> Mismatch | None:
    pattern = compiled.pattern
    absent = partial(Mismatch, rule, pattern.name, "", where=pattern.where, matched=0, kind="absent")
    if compiled.search is not None:
        return absent(reason=compiled.search.why_none(index, scopes))
    groups = sorted(compiled.written_ops.required, key=by_rarity)
    missing = [group for group in groups if not any(scope.has_any(group) for scope in scopes)]
    if compiled.op_glob is not None:
        wanted = "::".join(filter(None, compiled.op_glob))
        if any(nodes_matching_glob(scope, *compiled.op_glob) for scope in scopes):
            return None
        reason = f"the model has no {wanted}"
    elif missing:
        wanted = " or ".join(sorted(missing[0]))
        reason = f"the model has no {wanted}{_misspelt(missing[0])}"
    elif all(any(not scope.has_any(group) for group in groups) for scope in scopes):
        wanted = ", ".join(" or ".join(sorted(group)) for group in groups)
        reason = f"no graph of the model contains all of {wanted}"
    else:
        return None
    return absent(reason=reason, total=pattern_size(pattern), wanted=wanted, found="none")


def _misspelt(ops: Iterable[str]) -> str:
    """The operator that a misspelt op of a pattern may mean, as a clause; may be empty."""
    for domain, name in map(split_op, ops):
        near = close_matches(name, operators(domain), 1) if knows_domain(domain) and not history(domain, name) else []
        if near:
            return f" (did you mean {near[0]!r}?)"
    return ""
