"""Both engines of proofs on the same sites: each site of which they say another outcome, and how many runs each takes.

    python -m tests.mutation.comparing planted mended sample right shipped mutants exports

Names of sources may have a step: `right/17` takes every 17th.  A site is what one proof case is; it is proved by the
schedule and by strategies, in worker processes, and the rewrite goes on with what the schedule says.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import surgeon
from surgeon.errors import SurgeonError
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.site import site_prover
from surgeon.proof.site_proof import SiteProof
from tests.mutation import recorded
from tests.mutation.mutants import mutate
from tests.mutation.mutating import verdict

OLD, NEW = "old", "new"
SHIPPED = Path(__file__).parents[2] / "notebooks" / "models" / "tiny_distilbert.onnx"
_STRATEGY = re.compile(r"\(inputs (?:[^()]*, by )?([^()]+?), shapes")


@dataclass
class Comparison:
    """Outcomes of both engines, and runs."""

    title: str = ""
    """The subject that is being rewritten."""
    sites: int = 0
    """Proof cases so far."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Pairs of outcomes, of the schedule and of strategies."""
    runs: Counter[str] = field(default_factory=Counter)
    """Runs of each engine."""
    seconds: Counter[str] = field(default_factory=Counter)
    """Processor time of each engine."""
    deciding: Counter[str] = field(default_factory=Counter)
    """What failed under strategies, by strategy."""

    def add(self, old: SiteProof, new: SiteProof) -> None:
        """Count the two proofs of a site; print them where they differ."""
        self.sites += 1
        self.outcomes[old.outcome.value, new.outcome.value] += 1
        for engine, proof in ((OLD, old), (NEW, new)):
            self.runs[engine] += proof.runs
            self.seconds[engine] += proof.seconds  # type: ignore[assignment]
        if new.outcome.value == "failed":
            found = _STRATEGY.search(new.reason)
            self.deciding[found[1] if found else "-"] += 1
        if old.outcome is not new.outcome:
            print(f"- {self.title}: {old.outcome.value} -> {new.outcome.value}", flush=True)
            print(f"    old: {old.reason}\n    new: {new.reason}", flush=True)

    def print(self) -> None:
        """Print the counts."""
        print(f"\n{self.sites:,} sites; runs {self.runs[OLD]:,} -> {self.runs[NEW]:,}", end="")
        print(f"; seconds {self.seconds[OLD]:.1f} -> {self.seconds[NEW]:.1f}")
        for (old, new), number in sorted(self.outcomes.items()):
            print(f"  {old:9} {new:9} {number:,}")
        print("decided by", ", ".join(f"{name} {number}" for name, number in self.deciding.most_common()))


@contextmanager
def both_engines(found: Comparison) -> Iterator[None]:
    """Prove each case by both engines."""
    prove = site_prover.prove_cases

    def proved(cases: Iterable[ProofCase], jobs: int) -> list[SiteProof]:
        listed = list(cases)
        by_engine = [
            prove([replace(case, options=replace(case.options, engine=engine)) for case in listed], jobs)
            for engine in (OLD, NEW)
        ]
        for old, new in zip(*by_engine, strict=True):
            found.add(old, new)
        return by_engine[0]

    site_prover.prove_cases = proved
    try:
        yield
    finally:
        site_prover.prove_cases = prove


Task = tuple[str, Callable[[], Any]]


def _planted() -> Iterator[Task]:
    from tests.mutation.planted import PLANTED, outcome

    for one in PLANTED.values():
        yield one.name, lambda one=one: outcome(one)  # type: ignore[misc]


def _recorded(path: Path) -> Iterator[Task]:
    from tests.mutation.subjects import fixtures

    subjects = {subject.name: subject for subject in fixtures()}
    for one in recorded.sampled(recorded.read(path)):
        yield one.title, lambda one=one: verdict(subjects[one.subject], one.spot, mutate(one.name))  # type: ignore[misc]


def _mutants() -> Iterator[Task]:
    """All mutants of the fixtures, about 40 of each rule."""
    from tests.mutation.measuring import chosen, mutants_of, thinned
    from tests.mutation.subjects import fixtures

    subjects = {subject.name: subject for subject in fixtures()}
    for one in chosen(thinned(mutant for subject in subjects.values() for mutant in mutants_of(subject)), 40):
        yield one.title, lambda one=one: verdict(subjects[one.subject], one.spot, mutate(one.name))  # type: ignore[misc]


def _right() -> Iterator[Task]:
    from tests.mutation.right import outcome, rights

    for one in rights():
        yield one.name, lambda one=one: outcome(one)  # type: ignore[misc]


def _shipped() -> Iterator[Task]:
    for rules in ("transformers", "ort", "tensorrt"):

        def rewritten(rules: str = rules) -> Any:
            with tempfile.TemporaryDirectory() as folder:
                return surgeon.rewrite(SHIPPED, rules, output=Path(folder) / "out.onnx", keep_going=True)

        yield f"tiny_distilbert, {rules}", rewritten


def _exports() -> Iterator[Task]:
    from tests.mutation.subjects import exports

    for one in exports():

        def rewritten(one: Any = one) -> Any:
            return surgeon.rewrite(one.model, one.rules, target=one.target, ep=one.ep, check="sites", keep_going=True)

        yield one.name, rewritten


SOURCES: dict[str, Callable[[], Iterator[Task]]] = {
    "planted": _planted,
    "sample": lambda: _recorded(recorded.MUTANTS),
    "mended": lambda: _recorded(recorded.MENDED),
    "mutants": _mutants,
    "right": _right,
    "shipped": _shipped,
    "exports": _exports,
}


def main(names: list[str]) -> None:
    """Compare the engines on the sources of these names."""
    os.environ["SURGEON_CACHE"] = "off"  # proofs of earlier runs would count as none
    for source in names or ["planted", "mended", "sample", "shipped"]:
        name, _, step = source.partition("/")
        print(f"== {source}", flush=True)
        found = Comparison()
        with both_engines(found):
            for title, task in islice(SOURCES[name](), 0, None, int(step or 1)):
                found.title = title
                with suppress(SurgeonError):  # a mutant that is refused has no site
                    task()
        found.print()


if __name__ == "__main__":
    main(sys.argv[1:])
