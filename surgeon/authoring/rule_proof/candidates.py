"""What the instances of a rule's proof are made of: variants of each pattern, and shapes and values for each."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from surgeon.authoring.rule_proof.instances import CannotInstantiate
from surgeon.authoring.rule_proof.pattern_arguments import MOST_SHAPES, RANKS, PatternArguments, fixed, layouts
from surgeon.authoring.rule_proof.result import InstanceOutcome, InstanceProof
from surgeon.authoring.rule_proof.variants import PatternVariant, has_any, variants
from surgeon.rules.matching.pattern import Pattern

QUICK_RANKS, FURTHER_RANKS = (3, 2, 0), (4, 1)
MOST_FIXED = 4  # shapes of one rank with known sizes, where the rule spares all others
QUICK_VARIANTS = 16  # ways to write one pattern in a quick proof
QUICK_SHAPES = 6  # sets of shapes of one rank in a quick proof


class Candidates:
    """Variants and layouts for the patterns of one rule.

    quick: as for `prove_rule`.  custom_ops: libraries and Python files that implement ops.  proved_arguments: layouts
    with which something was proved; whoever proves adds them, and other variants are tried with them first.
    """

    def __init__(self, quick: bool, custom_ops: Sequence[str | Path]) -> None:
        self.quick, self.custom_ops = quick, custom_ops
        self.proved_arguments: list[PatternArguments] = []
        self._kept: dict[Pattern, list[PatternVariant]] = {}
        self._layouts: dict[tuple[int, int, int], list[PatternArguments]] = {}
        self._never: dict[tuple[int, int], str] = {}
        self._widest_of: dict[tuple[int, tuple[int, ...]], int] = {}
        self._told: dict[Callable[..., Any], set[str]] = {}  # labels of variants by pattern function
        self._short: set[int] = set()

    def why_never(self, pattern: Pattern, variant: PatternVariant) -> str:
        """Why no instance could be made of a variant at any opset that was tried; empty where one was."""
        opsets = [opset for key, opset, _ in self._layouts if key == id(variant)]
        if not opsets or any(self.is_written(pattern, variant, opset) for opset in opsets):
            return ""
        return self._never.get((id(variant), max(opsets)), "no shapes were found at which it runs")

    def widest(self, pattern: Pattern, variant: PatternVariant, opsets: tuple[int, ...]) -> int:
        """The newest opset at which the pattern can be written, where all shapes are tried."""
        key = id(variant), opsets
        if key not in self._widest_of:
            self._widest_of[key] = opsets[-1]
            for opset in reversed(opsets):
                if self.is_written(pattern, variant, opset):
                    self._widest_of[key] = opset
                    break
                if self.quick and (id(variant), opset) not in self._never:  # shapes are what is missing there
                    break
        return self._widest_of[key]

    def variants(self, pattern: Pattern) -> list[PatternVariant]:
        """The ways to write a pattern; in a quick proof those alone that no other trace of its function has shown."""
        if pattern not in self._kept:
            found = variants(pattern, pairs=not self.quick)
            if self.quick:
                told = self._told.setdefault(pattern.function, set())
                first, *others = sorted(found, key=lambda variant: len(variant.forms))
                found = [first, *(variant for variant in others if variant.label not in told)]
                never = [variant for variant in found if has_any(pattern, variant)]
                found = [*[variant for variant in found if variant not in never][:QUICK_VARIANTS], *never]
                self._short |= {id(variant) for variant in found if told or variant is not first}
                told |= {variant.label for variant in found}
            self._kept[pattern] = found
        return self._kept[pattern]

    def _base(self, pattern: Pattern) -> PatternVariant:
        """The first form of everything."""
        return min(self.variants(pattern), key=lambda variant: len(variant.forms))

    def layouts_while(
        self, pattern: Pattern, variant: PatternVariant, opset: int, entries: Sequence[InstanceProof]
    ) -> Iterator[PatternArguments]:
        """What a pattern can be given, rank by rank; the same of known sizes for a rank at which all was spared.

        In a quick proof more ranks only while all entries are spared.
        """
        is_short = self.is_short(variant)
        least = 1 if is_short else len(QUICK_RANKS)
        for place, rank in enumerate(self._ranks(pattern, variant, opset)):
            if self.quick and place >= least and is_told(entries):
                return
            found = self.of_rank(pattern, variant, opset, rank)
            shapes = [layout for layout in found if layout.kind == "shapes"]
            before = len(entries)
            yield from shapes
            if not is_told(entries[before:]):
                yield from (layout for layout in map(fixed, shapes[:MOST_FIXED]) if layout is not None)
            if not is_short:
                yield from (layout for layout in found if layout.kind != "shapes")

    def _ranks(self, pattern: Pattern, variant: PatternVariant, opset: int) -> Sequence[int]:
        """Ranks in the order in which they are tried: for other forms those at which the first one was proved."""
        if not self.quick:
            return RANKS
        ranks = [*QUICK_RANKS, *FURTHER_RANKS]
        if self.is_short(variant):
            fitting = dict.fromkeys(layout.rank for layout in self.proved_arguments)
            base = self._base(pattern)
            return list(fitting) or [rank for rank in ranks if self.of_rank(pattern, base, opset, rank)] or ranks[:1]
        return ranks

    def is_written(self, pattern: Pattern, variant: PatternVariant, opset: int) -> bool:
        """Whether a pattern can be written at an opset."""
        return any(self.of_rank(pattern, variant, opset, rank) for rank in self._ranks(pattern, variant, opset))

    def of_rank(self, pattern: Pattern, variant: PatternVariant, opset: int, rank: int) -> list[PatternArguments]:
        """What a pattern can be given at an opset, of one rank of its first tensor."""
        key = id(variant), opset  # a variant belongs to one pattern and is kept here
        if key in self._never:
            return []
        if (*key, rank) not in self._layouts:
            is_short = self.is_short(variant)
            most = 1 if is_short else QUICK_SHAPES if self.quick else MOST_SHAPES
            base = self._base(pattern)
            known = [*self.proved_arguments, *(self.of_rank(pattern, base, opset, rank) if variant is not base else ())]
            self._layouts[(*key, rank)] = []
            try:
                found = layouts(
                    pattern, variant, opset, ranks=(rank,), custom_ops=self.custom_ops, most_shapes=most, known=known
                )
                self._layouts[(*key, rank)] = found
            except CannotInstantiate as never:
                self._never[key] = str(never)
        return self._layouts[(*key, rank)]

    def is_short(self, variant: PatternVariant) -> bool:
        """Whether one set of shapes is enough, in two dtypes: a quick proof tries all with the first form alone."""
        return id(variant) in self._short


def is_told(entries: Sequence[InstanceProof]) -> bool:
    """Whether the rule did something with any."""
    return any(entry.standing is not InstanceOutcome.DECLINED for entry in entries)
