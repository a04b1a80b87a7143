"""Enumerates the instances of a rule: the variants of each pattern, and shapes and values for each variant."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from surgeon.authoring.rule_proof.instances import CannotInstantiate
from surgeon.authoring.rule_proof.pattern_arguments import MAX_SHAPES, RANKS, PatternArguments, argument_sets, fixed
from surgeon.authoring.rule_proof.result import InstanceOutcome, InstanceProof
from surgeon.authoring.rule_proof.variants import PatternVariant, has_any, variants
from surgeon.rules.matching.pattern import Pattern

QUICK_RANKS, FURTHER_RANKS = (3, 2, 0), (4, 1)
MAX_STATIC_SHAPES = 4  # static shapes of one rank, if the rule declines all symbolic ones
QUICK_VARIANTS = 16  # variants of one pattern in a quick proof
QUICK_SHAPES = 6  # sets of shapes of one rank in a quick proof


class Candidates:
    """Variants, shapes and values for the patterns of one rule.

    quick: as for `prove_rule`.  custom_ops: libraries and Python files that implement ops.  proved_arguments: shapes
    and values of proved instances, which the prover adds; other variants are tried with them first.
    """

    def __init__(self, quick: bool, custom_ops: Sequence[str | Path]) -> None:
        self.quick, self.custom_ops = quick, custom_ops
        self.proved_arguments: list[PatternArguments] = []
        self._kept: dict[Pattern, list[PatternVariant]] = {}
        self._argument_sets: dict[tuple[int, int, int], list[PatternArguments]] = {}
        self._impossible: dict[tuple[int, int], str] = {}
        self._widest_of: dict[tuple[int, tuple[int, ...]], int] = {}
        self._labels: dict[Callable[..., Any], set[str]] = {}  # labels of variants by pattern function
        self._short: set[int] = set()

    def not_instantiated_reason(self, pattern: Pattern, variant: PatternVariant) -> str | None:
        """Why a variant has no instance at any opset that was tried; None if it has one."""
        opsets = [opset for key, opset, _ in self._argument_sets if key == id(variant)]
        if not opsets or any(self.is_written(pattern, variant, opset) for opset in opsets):
            return None
        return self._impossible.get((id(variant), max(opsets)), "no shapes were found for which it runs")

    def widest(self, pattern: Pattern, variant: PatternVariant, opsets: tuple[int, ...]) -> int:
        """The newest opset at which the variant exists.  All shapes are tried there."""
        key = id(variant), opsets
        if key not in self._widest_of:
            self._widest_of[key] = opsets[-1]
            for opset in reversed(opsets):
                if self.is_written(pattern, variant, opset):
                    self._widest_of[key] = opset
                    break
                if self.quick and (id(variant), opset) not in self._impossible:  # only fitting shapes are missing
                    break
        return self._widest_of[key]

    def variants(self, pattern: Pattern) -> list[PatternVariant]:
        """The variants of a pattern; in a quick proof only those that no other trace of its function has."""
        if pattern not in self._kept:
            found = variants(pattern, pairs=not self.quick)
            if self.quick:
                labels = self._labels.setdefault(pattern.function, set())
                first, *others = sorted(found, key=lambda variant: len(variant.forms))
                found = [first, *(variant for variant in others if variant.label not in labels)]
                never = [variant for variant in found if has_any(pattern, variant)]
                found = [*[variant for variant in found if variant not in never][:QUICK_VARIANTS], *never]
                self._short |= {id(variant) for variant in found if labels or variant is not first}
                labels |= {variant.label for variant in found}
            self._kept[pattern] = found
        return self._kept[pattern]

    def _base(self, pattern: Pattern) -> PatternVariant:
        """The first form of everything."""
        return min(self.variants(pattern), key=lambda variant: len(variant.forms))

    def arguments_while(
        self, pattern: Pattern, variant: PatternVariant, opset: int, entries: Sequence[InstanceProof]
    ) -> Iterator[PatternArguments]:
        """Shapes and values, rank by rank; static shapes follow if the rule declined all symbolic ones of a rank.

        A quick proof stops after the first ranks unless all entries are declined.
        """
        is_short = self.is_short(variant)
        least = 1 if is_short else len(QUICK_RANKS)
        for place, rank in enumerate(self._ranks(pattern, variant, opset)):
            if self.quick and place >= least and has_results(entries):
                return
            found = self.of_rank(pattern, variant, opset, rank)
            shapes = [arguments for arguments in found if arguments.kind == "shapes"]
            before = len(entries)
            yield from shapes
            if not has_results(entries[before:]):
                yield from (arguments for arguments in map(fixed, shapes[:MAX_STATIC_SHAPES]) if arguments is not None)
            if not is_short:
                yield from (arguments for arguments in found if arguments.kind != "shapes")

    def _ranks(self, pattern: Pattern, variant: PatternVariant, opset: int) -> Sequence[int]:
        """Ranks in the order of trial; for other forms, those at which the first form was proved."""
        if not self.quick:
            return RANKS
        ranks = [*QUICK_RANKS, *FURTHER_RANKS]
        if self.is_short(variant):
            fitting = dict.fromkeys(arguments.rank for arguments in self.proved_arguments)
            base = self._base(pattern)
            return list(fitting) or [rank for rank in ranks if self.of_rank(pattern, base, opset, rank)] or ranks[:1]
        return ranks

    def is_written(self, pattern: Pattern, variant: PatternVariant, opset: int) -> bool:
        """Whether a variant has an instance at an opset."""
        return any(self.of_rank(pattern, variant, opset, rank) for rank in self._ranks(pattern, variant, opset))

    def of_rank(self, pattern: Pattern, variant: PatternVariant, opset: int, rank: int) -> list[PatternArguments]:
        """Shapes and values at an opset for one rank of the first tensor."""
        key = id(variant), opset  # self._kept keeps the variant alive
        if key in self._impossible:
            return []
        if (*key, rank) not in self._argument_sets:
            is_short = self.is_short(variant)
            most = 1 if is_short else QUICK_SHAPES if self.quick else MAX_SHAPES
            base = self._base(pattern)
            known = [*self.proved_arguments, *(self.of_rank(pattern, base, opset, rank) if variant is not base else ())]
            self._argument_sets[(*key, rank)] = []
            try:
                found = argument_sets(
                    pattern, variant, opset, ranks=(rank,), custom_ops=self.custom_ops, most_shapes=most, known=known
                )
                self._argument_sets[(*key, rank)] = found
            except CannotInstantiate as never:
                self._impossible[key] = str(never)
        return self._argument_sets[(*key, rank)]

    def is_short(self, variant: PatternVariant) -> bool:
        """Whether one set of shapes in two dtypes suffices: a quick proof tries all only with the first form."""
        return id(variant) in self._short


def has_results(entries: Sequence[InstanceProof]) -> bool:
    """Whether an entry is not declined."""
    return any(entry.outcome is not InstanceOutcome.DECLINED for entry in entries)
