"""Compares the facts about a model with those of a baseline: regressions, and other changes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from surgeon.automation.gate.gate_rules import (
    DIM_FIXED,
    FUSION_LOST,
    INTERFACE_CHANGED,
    MODEL_GREW,
    MODEL_MISSING,
    MODEL_REFUSED,
    OP_UNSUPPORTED,
    PROOF_LOST,
    GateRule,
)
from surgeon.automation.gate.model_facts import DYNAMIC, ModelFacts, PortType, port_type
from surgeon.result_base import JsonRecord
from surgeon.rules.fused_families import FusedFamily, fused_families
from surgeon.text import format_count, join_all

Frame = tuple[str, int]
"""A line of the user's program: path and number."""
MORE_NODES, MORE_BYTES = 5, 1000  # growth up to these numbers is accepted in small models too
_SHARE_OF_WEIGHTS = 0.1  # of the tolerance: exports of one network have equal weights, but not equal nodes


@dataclass(frozen=True, slots=True)
class Difference(JsonRecord):
    """One difference of a model from the baseline: a regression, or another change."""

    JSON = "model rule=rule.name id=rule.id level=rule.level what subject cause? nodes? is_regression"

    what: str
    """The difference as a clause."""
    rule: GateRule | None = None
    """The rule that a regression breaks; None for other changes."""
    subject: str = ""
    """Its family, op or tensors; never a node."""
    cause: str = ""
    """Other changes that explain it, as clauses."""
    model: str = ""
    """Name of the model."""
    nodes: tuple[str, ...] = ()
    """Names of the first nodes that it concerns."""
    frames: tuple[Frame, ...] = field(default=(), repr=False)
    """Lines of the user's program that led to the first node, innermost first."""

    @property
    def is_regression(self) -> bool:
        """Whether the model is worse than in the baseline."""
        return self.rule is not None

    @property
    def text(self) -> str:
        """The difference and its cause."""
        return f"{self.what} ({self.cause})" if self.cause else self.what


def compare_facts(
    model: str,
    then: ModelFacts | None,
    now: ModelFacts | None,
    *,
    tolerance: float = 0.1,
    why: str = "",
    versions: str = "",
) -> list[Difference]:
    """The differences of one model, regressions first.

    Args:
        model: its name.
        then: the facts of the baseline; None for a new model.
        now: the facts of this run; None for a missing model.
        tolerance: accepted growth of the number of nodes, as a share; a tenth of it for bytes of weights.
        why: why the model has no result, or is not proved.
        versions: changed versions of packages since the baseline, as a clause.
    """
    found: list[Difference]
    clause = f": {why}" if why else ""
    if now is None:
        found = [Difference("it is not among the models", MODEL_MISSING)]
    elif then is None:
        found = [Difference(f"it is new, and {now.outcome}{clause}", MODEL_REFUSED if now.is_refused else None)]
    elif now.is_refused or then.is_refused:
        rule = MODEL_REFUSED if now.is_refused else None
        what = f"it is {now.outcome}, but was {then.outcome}{clause}"
        found = [] if now.is_refused and then.is_refused else [Difference(what, rule)]
    else:
        cause = _cause(then, now, versions)
        found = [replace(one, cause=joined(one.cause, cause)) for one in _changes(then, now, tolerance, why)]
    return sorted((replace(one, model=model) for one in found), key=lambda one: not one.is_regression)


def joined(*clauses: str) -> str:
    """Clauses as one text, without empty ones."""
    return "; ".join(filter(None, clauses))


def _changes(then: ModelFacts, now: ModelFacts, tolerance: float, why: str) -> Iterator[Difference]:
    """The differences of a model that has a result now and in the baseline."""
    yield from _interface(then, now)
    yield from (Difference(f"the target cannot run {_named(op)}", OP_UNSUPPORTED, op) for op in _less(now, then))
    yield from (Difference(f"the target now runs {_named(op)}", None, op) for op in _less(then, now))
    fusions = [*_proofs(then, now, why), *_families(then, now)]
    yield from fusions
    if not any(one.is_regression for one in fusions):  # they explain the growth
        yield from _growth(then, now, tolerance)


def _named(op: str) -> str:
    """An op, or a problem of the model by its kind."""
    return op if "::" in op else f"the model (problem: {op})"


def _less(one: ModelFacts, other: ModelFacts) -> Iterator[str]:
    """The unsupported ops of a result that another does not have."""
    return (op for op in one.unsupported if op not in other.unsupported)


def _interface(then: ModelFacts, now: ModelFacts) -> Iterator[Difference]:
    """One regression for all dims that are fixed now, one for all other changes, and a change for each other type."""
    fixed: dict[str, list[str]] = {}
    changed: dict[str, str] = {}
    for side, before, after in (("input", then.inputs, now.inputs), ("output", then.outputs, now.outputs)):
        changed |= {name: f"{side} {name} is gone" for name in before if name not in after}
        new = {name: f"{side} {name} is new" for name in after if name not in before}
        if side == "input":  # callers do not give it
            changed |= new
        else:
            yield from (Difference(text, None, name) for name, text in new.items())
        for name in (name for name in before if name in after and before[name] != after[name]):
            dims = _fixed_dims(port_type(before[name]), port_type(after[name]))
            text = f"{side} {name} is {after[name]}, was {before[name]}"
            if dims is None:
                changed[name] = text
            elif dims:
                fixed.setdefault(", ".join(dims), []).append(name)
            else:
                yield Difference(text, None, name)
    if fixed:
        names = sorted(name for group in fixed.values() for name in group)
        clauses = [f"{dims} of {join_all(group)}" for dims, group in fixed.items()]
        yield Difference(f"was dynamic, and is fixed: {'; '.join(clauses)}", DIM_FIXED, ", ".join(names))
    if changed:
        yield Difference("; ".join(changed.values()), INTERFACE_CHANGED, ", ".join(sorted(changed)))


def _fixed_dims(before: PortType, after: PortType) -> list[str] | None:
    """The dims that were dynamic and are numbers now, as "dim 0 (1)"; None if the types differ in another way."""
    one, two = before.dims, after.dims
    if before.dtype != after.dtype or one is None or two is None or len(one) != len(two):
        return None
    pairs = list(zip(one, two, strict=True))
    if any(old != new and DYNAMIC not in (old, new) for old, new in pairs):
        return None
    return [f"dim {axis} ({new})" for axis, (old, new) in enumerate(pairs) if old == DYNAMIC != new]


def _families(then: ModelFacts, now: ModelFacts) -> Iterator[Difference]:
    """A difference for each family with another number of ops.

    It is a regression unless sites that are rolled back explain it, or a family with more ops that contains this one.
    """
    if then.fused is None or now.fused is None:  # a dry run
        return
    before, after = then.families, now.families
    more = [family for name, family in fused_families().items() if after.get(name, 0) > before.get(name, 0)]
    undone = _newly_undone(then, now)
    others = undone.keys() - frozenset().union(*(family.rules for family in fused_families().values()))
    for name, family in fused_families().items():
        count, left = before.get(name, 0), after.get(name, 0)
        if count != left:
            explained = sum(undone.get(rule, 0) for rule in family.rules | others)
            is_lost = count - left > explained and not any(family.is_part_of(other) for other in more)
            rule = FUSION_LOST if is_lost else None
            yield Difference(f"{name} {count:,} → {left:,}", rule, name, _rule_changes(family, then, now))


def _rule_changes(family: FusedFamily, then: ModelFacts, now: ModelFacts) -> str:
    """The changed numbers of sites of a family's rules, as a clause."""
    counts = {rule: (then.rules.get(rule, 0), now.rules.get(rule, 0)) for rule in sorted(family.rules)}
    changes = [f"{rule} {count:,} → {left:,}" for rule, (count, left) in counts.items() if count != left]
    return f"rules: {', '.join(changes)}" if changes else ""


def _newly_undone(then: ModelFacts, now: ModelFacts) -> dict[str, int]:
    """The number of sites that are rolled back now and were not so, by rule."""
    more = {rule: count - then.rolled_back.get(rule, 0) for rule, count in now.rolled_back.items()}
    return {rule: count for rule, count in more.items() if count > 0}


def _proofs(then: ModelFacts, now: ModelFacts, why: str) -> Iterator[Difference]:
    undone = _newly_undone(then, now)
    if undone:
        sites = ", ".join(f"{format_count(count, 'site')} of {rule}" for rule, count in undone.items())
        yield Difference(f"rolled back: {sites}", PROOF_LOST, ", ".join(sorted(undone)), why)
    elif now.unproved > then.unproved:
        what = f"{format_count(now.unproved, 'site')} not proved, {then.unproved:,} before"
        yield Difference(what, PROOF_LOST, "sites", why)


def _growth(then: ModelFacts, now: ModelFacts, tolerance: float) -> Iterator[Difference]:
    sizes = {
        "nodes": (then.nodes, now.nodes, max(tolerance * then.nodes, MORE_NODES)),
        "bytes of weights": (*_weights(then, now), max(tolerance * _SHARE_OF_WEIGHTS * _weights(then)[0], MORE_BYTES)),
    }
    grown = [name for name, (before, after, most) in sizes.items() if after - before > most]
    for name in grown or [name for name, (before, after, _) in sizes.items() if before != after]:
        before, after, _ = sizes[name]
        yield Difference(f"it has {after:,} {name}, {before:,} before", MODEL_GREW if grown else None, name)


def _weights(*facts: ModelFacts) -> tuple[int, ...]:
    return tuple(sum(one.weights.values()) for one in facts)


def _cause(then: ModelFacts, now: ModelFacts, versions: str) -> str:
    """Changes of the exporter and its opsets or, for an equal export, of packages: they explain a difference."""
    one, two = then.export, now.export
    if one.structure == two.structure:
        return joined("the export is the same", versions)
    changes = [f"{one.producer} → {two.producer}"] if one.producer != two.producer else []
    for domain in one.opsets.keys() & two.opsets.keys():
        if one.opsets[domain] != two.opsets[domain]:
            name = "opset" if domain == "ai.onnx" else domain
            changes.append(f"{name} {one.opsets[domain]} → {two.opsets[domain]}")
    return ", ".join(changes) or "the graph of the export is another"


def version_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Changed versions of packages, as a clause."""
    known = (name for name in before if name in after and before[name] != after[name])
    return ", ".join(f"{name} {before[name]} → {after[name]}" for name in known)
