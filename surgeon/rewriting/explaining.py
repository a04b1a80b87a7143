"""Why a rule found nothing, or did not fire where it nearly could have."""

from collections.abc import Iterator, Sequence

from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope
from surgeon.matching.compile import Compiled
from surgeon.matching.match import Mismatch, anchors, climb, match_at
from surgeon.matching.state import Trace
from surgeon.rewriting.rule import Rule

TOLD = 5  # near misses of a rule that fired elsewhere
TRIED = 32  # places at which a rule is tried again to say why


def near_misses(index: Index, rule: Rule, target: str) -> list[Mismatch]:
    """The deepest miss at each of the first places where a rule could start; else what the model lacks altogether."""
    found: list[Mismatch] = []
    absent: list[Mismatch] = []
    for scope in index.scopes:
        plan = rule.plan(target, scope.opset) if not scope.is_gone else None
        if isinstance(plan, str):
            absent.append(Mismatch(rule.name, "", plan, rule.where, 0))
        if plan is None or isinstance(plan, str):
            continue
        for compiled in plan.sources:
            for miss in explain(index, compiled, scope):
                (found if miss.node else absent).append(miss)
                if len(found) >= TRIED:
                    return found
    return found or absent[:1]


def deepest(misses: Sequence[Mismatch]) -> list[Mismatch]:
    """The few misses that came furthest, one of each reason."""
    found: dict[str, Mismatch] = {}
    for miss in sorted(misses, key=lambda miss: -miss.matched):
        found.setdefault(miss.reason, miss)
    return list(found.values())[:TOLD]


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
    for root in _roots(compiled, scope):
        trace = Trace()
        if match_at(index, compiled, root, None, trace) is None and trace.depth >= 0:
            yield Mismatch(compiled.pattern.name, root.label, trace.reason, trace.where, trace.depth)


def _roots(compiled: Compiled, scope: Scope) -> Iterator[Node]:
    """Nodes to begin at; where the rarest op lies nowhere near any, those that the pattern ends with."""
    seen: set[Node] = set()
    for anchor in anchors(compiled, scope):
        for root in climb(scope, compiled, anchor):
            if root not in seen:
                seen.add(root)
                yield root
    if not seen:
        yield from (node for op in sorted(compiled.heads[0] or ()) for node in scope.by_op.get(op, ()) if node.alive)
