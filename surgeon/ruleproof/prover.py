"""A rule proved from itself alone: every pattern, written out, against what each target gets in its place."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from surgeon.errors import CheckFailed, SurgeonError
from surgeon.file.model import Model
from surgeon.indexing.index import Index
from surgeon.matching.compile import Compiled
from surgeon.matching.match import find
from surgeon.matching.pattern import Pattern
from surgeon.ops.schemas import history
from surgeon.prove.proof import least
from surgeon.prove.result import Outcome
from surgeon.rewriting.near_misses import misses_of_pattern
from surgeon.rewriting.options import CheckOptions
from surgeon.rewriting.result import Report
from surgeon.rewriting.rewrite import rewrite
from surgeon.rewriting.rule import TARGETS, Plan, Rule
from surgeon.ruleproof.cases import Case
from surgeon.ruleproof.dtypes import FLOATS
from surgeon.ruleproof.layouts import RANKS, Layout, is_runnable, layouts
from surgeon.ruleproof.opsets import OLDEST, Content, content, newest_opset, oldest_alike
from surgeon.ruleproof.result import Finding, Proof, RuleProof, Standing
from surgeon.ruleproof.variants import Variant, operations, variants
from surgeon.ruleproof.without_shapes import prove_without_shapes
from surgeon.ruleproof.zero_size import compare_zero_size

QUICK_RANKS = (3, 2, 0)
DTYPES = (*FLOATS, TensorProto.INT64)

Progress = Callable[[str, int], None]


def prove_rule(
    rule: Rule,
    *,
    targets: Sequence[str] | None = None,
    quick: bool = False,
    custom_ops: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> RuleProof:
    """Prove a rule on instances made from its own patterns.

    For each target (None: all that the rule has a form for) and each pattern that it would look for there: every form
    of the pattern, every opset at which its ops or the rule's forms change, float32, float16, float64, bfloat16 and
    int64 as far as the ops take them, ranks 0 to 4, several tensors of broadcasting shapes, dims of size 1 and 0, and
    shapes that are not stated.  Each goes through `rewrite` and its check.

    quick: the newest opset of each form alone, and fewer ranks.  custom_ops: libraries and Python files that implement
    ops, as for `rewrite`.  progress: called with the rule's name and the number of entries so far.  Raises RuleError
    for a pattern that cannot be traced.
    """
    started = time.perf_counter()
    made = _RuleProver(rule, targets or list(TARGETS), quick, custom_ops, progress).run()
    made.seconds = time.perf_counter() - started
    return made


@dataclass(frozen=True, slots=True)
class _Station:
    """A target at an opset, what the rule does there, and all opsets at which it does the same."""

    target: str
    opset: int
    plan: Plan
    alike: tuple[int, ...]


class _RuleProver:
    """One run over one rule; equal pairs of models are checked once."""

    def __init__(
        self,
        rule: Rule,
        targets: Sequence[str],
        quick: bool,
        custom_ops: Sequence[str | Path],
        progress: Progress | None,
    ) -> None:
        self.rule, self.targets, self.quick = rule, targets, quick
        self.custom_ops, self.progress = custom_ops, progress
        self.proof = RuleProof(rule.name, rule.where)
        self.newest = newest_opset()
        self.findings: dict[tuple[Content, Content, str], Finding] = {}
        self.variants: dict[Pattern, list[Variant]] = {}
        self.layouts: dict[tuple[int, int], list[Layout]] = {}
        self.floats: dict[tuple[int, int, int], onnx.ModelProto | None] = {}

    def run(self) -> RuleProof:
        """Go through targets, opsets, patterns and their forms."""
        for station in (station for target in self.targets for station in self._stations(target)):
            for compiled in station.plan.sources:
                for variant in self._variants(compiled.pattern):
                    widest = self._widest(compiled.pattern, variant, station.alike)
                    if station.opset == widest or not (self.quick or station.plan.needs is not None):
                        self._prove_variant(station, compiled, variant, widest)
        return self.proof

    def _stations(self, target: str) -> Iterator[_Station]:
        """Where the rule has something to do, those at which the same form is written together."""
        groups: dict[Any, list[tuple[Plan, int]]] = {}
        for opset in self._opsets():
            plan = self.rule.plan(target, opset)
            if not isinstance(plan, str):
                groups.setdefault((plan.form.function, plan.needs), []).append((plan, opset))
        for members in groups.values():
            alike = tuple(opset for _, opset in members)
            yield from (_Station(target, opset, plan, alike) for plan, opset in members)

    def _widest(self, pattern: Pattern, variant: Variant, opsets: Sequence[int]) -> int:
        """The newest opset at which the pattern can be written, where all shapes are tried."""
        return next((opset for opset in reversed(opsets) if self._layouts(pattern, variant, opset)), opsets[-1])

    def _opsets(self) -> list[int]:
        """Opsets at which an op of the rule changes, those of its forms and one below each, and the newest."""
        found = {OLDEST, self.newest}
        for form in self.rule.forms:
            found |= {form.opset, form.opset - 1}
        functions = [*self.rule.patterns, *(form.function for form in self.rule.forms if form.is_pattern)]
        for compiled in (item for function in functions for item in self.rule.compiled(function)):
            for variant in self._variants(compiled.pattern):
                for operation in operations(compiled.pattern, variant):
                    if not operation.domain:
                        found |= {item.since_version for item in history("", operation.op)}
        return sorted(opset for opset in found if OLDEST <= opset <= self.newest)

    def _prove_variant(self, station: _Station, compiled: Compiled, variant: Variant, widest: int) -> None:
        """Every shape and dtype of one way to write one pattern; outside the widest opset one shape that fires."""
        entries: list[Proof] = []
        dropped: list[Proof] = []
        is_full, needs = station.opset == widest, station.plan.needs
        for layout in self._layouts(compiled.pattern, variant, widest):
            case = Case(station.target, station.opset, compiled, variant, layout)
            of_layout: list[Proof] = []
            for one in (replace(case, dtype=dtype) for dtype in (DTYPES if needs is None else DTYPES[:1])):
                model = self._written(one)
                if model is not None:
                    found = self._proved(one, model)
                    (of_layout if found.is_instance else dropped).append(self._entry(one, model, found))
            if is_full and needs is None:
                entries += [*of_layout, *self._without_shapes(case)]
                continue
            fired = [entry for entry in of_layout if entry.standing is not Standing.SPARED]
            entries = of_layout if fired else entries or of_layout
            if fired or (entries and needs is not None):
                break
        for entry in entries or dropped[:1]:
            self.proof.entries.append(entry)
            if self.progress is not None:
                self.progress(self.rule.name, len(self.proof.entries))

    def _variants(self, pattern: Pattern) -> list[Variant]:
        if pattern not in self.variants:
            self.variants[pattern] = variants(pattern)
        return self.variants[pattern]

    def _layouts(self, pattern: Pattern, variant: Variant, opset: int) -> list[Layout]:
        key = id(variant), opset  # a variant belongs to one pattern and is kept by self.variants
        if key not in self.layouts:
            ranks = QUICK_RANKS if self.quick else RANKS
            self.layouts[key] = layouts(pattern, variant, opset, ranks, self.custom_ops)
        return self.layouts[key]

    def _float(self, case: Case) -> onnx.ModelProto | None:
        """The instance of a case in float32, written once for all targets."""
        key = id(case.variant), case.opset, id(case.layout)  # all of which this prover keeps
        if key not in self.floats:
            self.floats[key] = replace(case, dtype=FLOATS[0]).written()
        return self.floats[key]

    def _written(self, case: Case) -> onnx.ModelProto | None:
        """The instance of a case; None where there is none or where it is that of float32 over again."""
        if case.dtype == FLOATS[0]:
            return self._float(case)
        model = case.written()
        return None if model is None or model == self._float(case) else model

    def _proved(self, case: Case, model: onnx.ModelProto) -> Finding:
        """What became of an instance; one of integers is spared where the pattern finds that of floats alone."""
        found = self._found(case, model)
        if found.standing is Standing.NOT_MATCHED and case.dtype == TensorProto.INT64:
            floats = self._float(case)
            if floats is not None and self._found(case, floats).standing is not Standing.NOT_MATCHED:
                return Finding(Standing.SPARED, f"the pattern leaves integers: {found.reason}")
        return found

    def _without_shapes(self, case: Case) -> Iterator[Proof]:
        """The same without stated shapes, in float32, where that leads to another replacement.

        A scalar is not held against a rule that is not told the rank: few ops take it amiss, and few models have it.
        """
        model = self._float(case)
        if model is None or case.layout.kind != "shapes" or case.layout.rank == 0:
            return
        found = prove_without_shapes(model, self.rule, case.target, self.custom_ops)
        if found is not None:
            yield self._entry(replace(case, layout=replace(case.layout, kind="unstated")), model, found)

    def _entry(self, case: Case, model: onnx.ModelProto, found: Finding) -> Proof:
        return Proof(
            pattern=self._name(case.compiled),
            variant=case.variant.label,
            target=case.target,
            opset=case.opset,
            dtype=case.dtype_name(model),
            layout=case.layout,
            standing=found.standing,
            reason=found.reason,
            error=found.error,
            model=model if found.standing.is_fault else None,
        )

    def _name(self, compiled: Compiled) -> str:
        """A pattern by its function; a form of a target by its kind, since its function may be called _."""
        pattern = compiled.pattern
        kind = next((form.kind for form in self.rule.forms if form.function is pattern.function), "")
        name = f"{kind} form" if kind else pattern.name
        siblings = self.rule.compiled(pattern.function)
        return name if len(siblings) == 1 else f"{name} {siblings.index(compiled) + 1}"

    def _found(self, case: Case, model: onnx.ModelProto) -> Finding:
        """Rewrite without a check first: many instances lead to the same pair of models."""
        try:
            rewritten, report = rewrite(model, [self.rule], target=case.target, check="none")
        except SurgeonError as error:
            return Finding(Standing.FAILED, str(error))
        if not report.sites:
            return _unfired(model, case.compiled, report)
        before, after = content(model), content(rewritten)
        key = before, after, case.layout.kind
        if key not in self.findings:
            found = self._judged(case, model, rewritten)
            if found.standing is Standing.UNPROVED and found.is_instance:
                found = self._judged_older(case, oldest_alike(model, before, after), before, after) or found
            self.findings[key] = found
        return self.findings[key]

    def _judged(self, case: Case, model: onnx.ModelProto, rewritten: onnx.ModelProto) -> Finding:
        if case.layout.kind == "empty":
            return compare_zero_size(model, rewritten, self.custom_ops, self.rule.approximate)
        return self._checked(case, model)

    def _judged_older(
        self, case: Case, older: onnx.ModelProto | None, before: Content, after: Content
    ) -> Finding | None:
        """The same two graphs under an older opset that means the same: ONNX Runtime may have the kernels there."""
        if older is None:
            return None
        rewritten, _ = rewrite(older, [self.rule], target=case.target, check="none")
        if (content(older), content(rewritten)) != (before, after):
            return None
        found = self._judged(case, older, rewritten)
        return None if found.standing is Standing.UNPROVED else found

    def _checked(self, case: Case, model: onnx.ModelProto) -> Finding:
        """What the check of a rewrite finds."""
        options = CheckOptions(dims=case.layout.dims(), custom_ops=self.custom_ops)
        try:
            _, report = rewrite(model, [self.rule], target=case.target, check="sites", keep_going=True, options=options)
        except CheckFailed as error:
            return Finding(Standing.FAILED, str(error).removesuffix("; nothing was written."))
        proofs = [site.proof for site in (*report.sites, *report.rolled_back) if site.proof is not None]
        if not proofs:  # nothing was rewritten, which the run before this one has ruled out
            return Finding(Standing.UNPROVED, "the check did not run")
        proof = least(proofs)
        if proof.outcome is Outcome.PROVED and not proof.independent:
            reason = f"what is written has no kernel here but the rule's own pattern ({proof.oracle})"
            return Finding(Standing.UNPROVED, reason)
        is_instance = proof.outcome is not Outcome.UNPROVED or is_runnable(model, self.custom_ops)
        return Finding(Standing(proof.outcome.value), proof.reason, proof.worst, is_instance)


def _unfired(model: onnx.ModelProto, compiled: Compiled, report: Report) -> Finding:
    """Spared where the pattern finds its instance and the rule refuses it; else the pattern has a fault."""
    index = Index(Model.open(model))
    if next(find(index, compiled, index.scopes[0]), None) is not None:
        return Finding(Standing.SPARED, report.misses[0].reason if report.misses else "the rule refuses it")
    misses = sorted(misses_of_pattern(index, compiled, index.scopes[0]), key=lambda miss: -miss.matched)
    reason = f"{misses[0].reason} ({misses[0].where})" if misses else "no node is where the pattern could start"
    return Finding(Standing.NOT_MATCHED, reason)
