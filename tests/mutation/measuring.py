"""Mutants of subjects, chosen so that each rule and each kind of change has its share, and what became of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx

from tests.mutation.canvas import Canvas
from tests.mutation.judging import HOLE, SAME, UNTRIED, judge
from tests.mutation.mutants import mutate, mutations
from tests.mutation.mutating import Spot, Subject, Verdict, baseline, seen_at, spots, verdict

KILLED, REFUSED, UNPROVED, EQUAL, CRASHED = "killed", "refused", "unproved", "equal", "CRASHED"
FEW = 8  # rules that a subject names itself: all of them have their part in what it becomes
SKIPPED = "not measured"
LARGE = ("2e4 < |y| < 1e15", "|y| > 1e6")  # of `poisons`: what they change is extreme
OUTCOMES = (KILLED, REFUSED, UNPROVED, EQUAL, UNTRIED, HOLE, CRASHED, SKIPPED)


@dataclass(frozen=True)
class Mutant:
    """One change of one replacement: `name` as `Mutation.name`, of subject `subject`."""

    subject: str
    spot: Spot
    name: str

    @property
    def kind(self) -> str:
        """Its class."""
        return self.name.partition(":")[0]

    @property
    def title(self) -> str:
        """What names it at the command line."""
        return f"{self.subject} | {self.spot.rule} | {self.name}"


@dataclass(frozen=True)
class Result:
    """What became of a mutant: one of OUTCOMES, with why.  proof: what the proof said of one that survived."""

    mutant: Mutant
    outcome: str
    reason: str = ""
    proof: str = ""


def mutants_of(subject: Subject) -> Iterator[Mutant]:
    """All mutants of a subject."""
    for spot in spots(subject):
        found: list[str] = []

        def look(canvas: Canvas, found: list[str] = found) -> None:
            found.extend(one.name for one in mutations(canvas))

        seen_at(subject, spot, look)
        yield from (Mutant(subject.name, spot, name) for name in dict.fromkeys(found))


def measure(subject: Subject, mutants: Sequence[Mutant]) -> Iterator[Result]:
    """What becomes of mutants of one subject; they are skipped where the subject itself is not proved."""
    before = baseline(subject)
    for mutant in mutants:
        if before.outcome == "proved":
            yield _result(subject, before, mutant)
        else:
            yield Result(mutant, SKIPPED, f"unchanged, the subject is {before.outcome}: {before.reason}")


def _result(subject: Subject, before: Verdict, mutant: Mutant) -> Result:
    found = verdict(subject, mutant.spot, mutate(mutant.name))
    if found.outcome == "failed":
        return Result(mutant, KILLED, found.reason)
    if found.outcome in (REFUSED, UNPROVED):
        return Result(mutant, found.outcome, found.reason)
    assert found.model is not None
    assert before.model is not None
    if _bytes(found.model) == _bytes(before.model):
        return Result(mutant, EQUAL, "the same model", found.reason)
    apart = {kind for rule in subject.rules for kind in rule.differs} if len(subject.rules) < FEW else set[str]()
    apart |= next(set(rule.differs) for rule in subject.rules if rule.name == mutant.spot.rule)
    slack = max(rule.approximate for rule in subject.rules if len(subject.rules) < FEW or rule.name == mutant.spot.rule)
    opinion = judge(subject.model, before.model, found.model, apart, slack)
    outcome = {SAME: EQUAL}.get(opinion.kind, opinion.kind)
    if outcome == HOLE and "extreme" in apart and mutant.name.endswith(LARGE):
        return Result(
            mutant, EQUAL, f"it differs for extreme numbers alone, where the rule says that it may: {opinion.reason}"
        )
    return Result(mutant, outcome, opinion.reason, found.reason)


def chosen(mutants: Sequence[Mutant], most: int) -> list[Mutant]:
    """At most so many of each rule, spread evenly over its own."""
    by_rule: dict[str, list[Mutant]] = {}
    for one in mutants:
        by_rule.setdefault(one.spot.rule, []).append(one)
    found: list[Mutant] = []
    for place, group in enumerate(by_rule.values()):
        step = max(len(group) / most, 1.0)
        first = place * len(group) / len(by_rule) if most == 1 else 0.0  # not of the same kind in every rule
        found += [group[int(first + at * step) % len(group)] for at in range(min(len(group), most))]
    return found


def _bytes(model: onnx.ModelProto) -> bytes:
    return bytes(model.SerializeToString(deterministic=True))


def thinned(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Of mutants that change the same op of the same rule in the same way the first."""
    found: dict[tuple[str, int, str], Mutant] = {}
    for one in mutants:
        kind, _, detail = one.name.partition(": ")
        words = detail.split(" ")
        plain = " ".join(words[1:]) if words[0].isdigit() and kind != "constant" else detail
        found.setdefault((one.spot.rule, one.spot.form, f"{kind}: {plain}"), one)
    return list(found.values())
