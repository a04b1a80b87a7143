"""A rule proved from itself alone: every pattern, written out, against what each target gets in its place."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from surgeon.authoring.rule_proof.candidates import Candidates, is_told
from surgeon.authoring.rule_proof.differential import compare_outputs
from surgeon.authoring.rule_proof.dtype_assignment import FLOAT_DTYPES
from surgeon.authoring.rule_proof.instance_rewrite import InstanceRewrite, fires
from surgeon.authoring.rule_proof.instance_spec import InstanceSpec
from surgeon.authoring.rule_proof.instances import read_on
from surgeon.authoring.rule_proof.opset_range import OLDEST, ModelFingerprint, content, newest_opset, oldest_alike
from surgeon.authoring.rule_proof.pattern_arguments import PatternArguments, every_layout, is_runnable
from surgeon.authoring.rule_proof.result import MUTE, InstanceOutcome, InstanceProof, InstanceResult, RuleProof
from surgeon.authoring.rule_proof.unknown_shapes import prove_without_shapes
from surgeon.authoring.rule_proof.variants import PatternVariant, operations_of, parameters_of
from surgeon.errors import CheckFailed, SurgeonError, Unavailable
from surgeon.ops.schemas import history
from surgeon.pipeline.acceptance.near_misses import misses_of_pattern
from surgeon.printed_commands import command
from surgeon.proof.check_result import Outcome
from surgeon.rules.catalogue import all_rules
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.matcher import find
from surgeon.rules.rule import Rule, RulePlan
from surgeon.runtime.inputs.input_generator import InputsUnknown, ValueKind, generate_inputs
from surgeon.text import join_first

SEARCHED_RANKS = (4, 3, 2)
MOST_SEARCHED = 160  # shapes and values tried at one rank, where the rule spares all usual ones
DTYPES = (*FLOAT_DTYPES, TensorProto.INT64)
Progress = Callable[[str, int], None]
KEPT = "must keep its name: it is an output of the graph"  # how a refusal ends that is about the instance alone


def compare_zero_size(
    model: onnx.ModelProto, rewritten: onnx.ModelProto, custom_ops: Sequence[str | Path] = (), slack: float = 0.0
) -> InstanceResult:
    """What both make of an input without elements.

    Shapes and dtypes must agree, and the values of what has elements all the same, such as a sum over nothing.  Where a
    kernel refuses what its op allows, the op's definition is asked.
    custom_ops, slack: as for `compare_outputs`.
    """
    try:
        feeds = generate_inputs(model, seed=0, dims={})
    except InputsUnknown as unknown:
        return InstanceResult(InstanceOutcome.UNPROVED, f"inputs cannot be made: {unknown.reason}", is_instance=False)
    inputs = [(ValueKind.USUAL, feeds)]
    found = compare_outputs(model, rewritten, inputs, custom_ops=custom_ops, slack=slack)
    if found.outcome is InstanceOutcome.FAILED and found.error is None:  # it does not run
        defined = compare_outputs(model, rewritten, inputs, custom_ops=custom_ops, slack=slack, by_definition=True)
        if defined.outcome is InstanceOutcome.PROVED:
            return replace(defined, reason=f"by what the ops are defined to do; but {found.reason}")
    return replace(found, reason=f"where an input has no elements, {found.reason}") if found.reason else found


class InstanceJudge:
    """Judges instances of one rule.  custom_ops: libraries and Python files that implement ops."""

    def __init__(self, rule: Rule, custom_ops: Sequence[str | Path]) -> None:
        self.rule, self.custom_ops = rule, custom_ops
        self._findings: dict[tuple[ModelFingerprint, ModelFingerprint, str], InstanceResult] = {}

    def found(self, case: InstanceSpec, model: onnx.ModelProto) -> InstanceResult:
        """What became of the instance of a case; where its output has to stay as it is, of one that is read on."""
        found = self._found(case, model)
        return self._found(case, read_on(model)) if found.reason.endswith(KEPT) else found

    def _found(self, case: InstanceSpec, model: onnx.ModelProto) -> InstanceResult:
        try:
            trial = InstanceRewrite(model, self.rule, case.target)
            if not trial.has_fired:
                return _unfired(trial, case.compiled)
            rewritten = trial.rewritten
        except SurgeonError as error:
            return InstanceResult(InstanceOutcome.FAILED, str(error))
        before, after = content(model), content(rewritten)
        key = before, after, case.layout.kind
        if key not in self._findings:
            found = self._judged(case, trial)
            if found.outcome is InstanceOutcome.UNPROVED and found.is_instance and not found.reason.startswith(MUTE):
                found = self._judged_older(case, oldest_alike(model, before, after), before, after) or found
            self._findings[key] = found
        return self._findings[key]

    def _judged(self, case: InstanceSpec, trial: InstanceRewrite) -> InstanceResult:
        if case.layout.kind == "empty":
            return compare_zero_size(trial.model, trial.rewritten, self.custom_ops, self.rule.approximate)
        return self._checked(case, trial)

    def _judged_older(
        self, case: InstanceSpec, older: onnx.ModelProto | None, before: ModelFingerprint, after: ModelFingerprint
    ) -> InstanceResult | None:
        """The same two graphs under an older opset that means the same: ONNX Runtime may have the kernels there."""
        if older is None:
            return None
        trial = InstanceRewrite(older, self.rule, case.target)
        if (content(older), content(trial.rewritten)) != (before, after):
            return None
        found = self._judged(case, trial)
        return None if found.outcome is InstanceOutcome.UNPROVED else found

    def _checked(self, case: InstanceSpec, trial: InstanceRewrite) -> InstanceResult:
        """What the check of a rewrite finds."""
        try:
            proof = trial.proved(case.layout.dims(), self.custom_ops)
        except CheckFailed as error:
            return InstanceResult(InstanceOutcome.FAILED, str(error))
        if proof is None:  # nothing was rewritten, which the caller has ruled out
            return InstanceResult(InstanceOutcome.UNPROVED, "the check did not run")
        is_instance = proof.outcome is not Outcome.UNPROVED or is_runnable(trial.model, self.custom_ops)
        return InstanceResult(InstanceOutcome(proof.outcome.value), proof.reason, proof.worst, is_instance)


def _unfired(trial: InstanceRewrite, compiled: CompiledPattern) -> InstanceResult:
    """Spared where the pattern finds its instance and the rule refuses it; else the pattern has a fault."""
    index = trial.run.index
    if next(find(index, compiled, index.scopes[0]), None) is not None:
        refusals = trial.mismatches
        return InstanceResult(InstanceOutcome.DECLINED, refusals[0].reason if refusals else "the rule refuses it")
    misses = sorted(misses_of_pattern(index, compiled, index.scopes[0]), key=lambda miss: -miss.matched)
    reason = f"{misses[0].reason} ({misses[0].where})" if misses else "no node is where the pattern could start"
    return InstanceResult(InstanceOutcome.NOT_MATCHED, reason)


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

    quick: the newest opset of each form alone, fewer ranks and shapes, two dtypes for all but the first shapes of a
    rank, and one set of shapes for all but the first form of a pattern; other ranks only where nothing is told at
    those; and what one target proves of a pattern and a form passes for another.  custom_ops: libraries and Python
    files that implement ops, as for `rewrite`.  progress: called with the rule's name and the number of entries so far.
    Raises RuleError for a pattern that cannot be traced.
    """
    started = time.perf_counter()
    made = _RuleProver(rule, targets or rule.targets, quick, custom_ops=custom_ops, progress=progress).run()
    made.seconds = time.perf_counter() - started
    return made


@dataclass(frozen=True, slots=True)
class _Station:
    """A target at an opset, what the rule does there, and all opsets at which it does the same."""

    target: str
    opset: int
    plan: RulePlan
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
        self.judging = InstanceJudge(rule, custom_ops)
        self.candidates = Candidates(quick, custom_ops)
        self.floats: dict[tuple[int, int, str, str], onnx.ModelProto | None] = {}

    def run(self) -> RuleProof:
        """Go through targets, opsets, patterns and their forms; what targets have in common is proved for one."""
        known: dict[Any, list[InstanceProof]] = {}
        for station in (station for target in self.targets for station in self._stations(target)):
            plan = station.plan
            for compiled in plan.sources if self.rule.patterns else ():  # a search has no instances
                key = self._key(station, compiled)
                before = len(self.proof.entries)
                if key in known and plan.needs is None:  # what is too old is told with the name of the target
                    self._add([replace(entry, target=station.target) for entry in known[key]])
                    continue
                for variant in self.candidates.variants(compiled.pattern):
                    widest = self.candidates.widest(compiled.pattern, variant, station.alike)
                    if station.opset == widest or not (self.quick or plan.needs is not None):
                        self._prove_variant(station, compiled, variant, widest)
                known[key] = self.proof.entries[before:]
        self.proof.drop_mute()
        self._tell_unmade()
        self.proof.why_empty = "" if self.proof.entries else self._why_nothing()
        return self.proof

    def _why_nothing(self) -> str:
        """Why the rule has no entry at all, and how it is proved all the same."""
        is_installed = any(rule is self.rule for _, _, rule in all_rules())
        name = self.rule.name if is_installed else f"FILE.py:{self.rule.name}"
        elsewhere = f"prove it in a model that has a site: {command('rewrite', 'IN', 'OUT', '--rules', name)}"
        if not self.rule.patterns:
            return f"it finds its sites by a search, from which no instance can be made up; {elsewhere}"
        plans = [self.rule.plan(target, self.newest) for target in self.targets]
        if plans and all(isinstance(plan, Unavailable) for plan in plans):
            return "; ".join(plan.reason for plan in plans if isinstance(plan, Unavailable))
        unmade = self.proof.not_instantiated.items()
        told = [f"{name}{f' ({variant})' if variant else ''}: {why}" for (name, variant), why in unmade]
        return (
            f"no instance can be made up from its patterns ({join_first(told, 3)}), as where an op of one's own takes "
            f"few of the values that a pattern captures; write such a value into the pattern, or {elsewhere}"
        )

    def _key(self, station: _Station, compiled: CompiledPattern) -> Any:
        """What becomes of a pattern's instances hangs on: the forms, the opsets, and all that is looked for.

        A quick proof takes it that a pattern is found before others that a target looks for too.
        """
        plan = station.plan
        sources = () if self.quick else tuple(map(id, plan.sources))
        return id(compiled), sources, plan.form, plan.needs, plan.others, plan.newer, station.opset, station.alike

    def _add(self, entries: Sequence[InstanceProof]) -> None:
        for entry in entries:
            self.proof.entries.append(entry)
            if self.progress is not None:
                self.progress(self.rule.name, len(self.proof.entries))

    def _tell_unmade(self) -> None:
        """Say which forms of the rule's patterns no instance could be made of, and why."""
        for function in self.rule.patterns:
            for compiled in self.rule.compiled(function):
                for variant in self.candidates.variants(compiled.pattern):
                    why = self.candidates.why_never(compiled.pattern, variant)
                    if why:
                        self.proof.not_instantiated[(self._name(compiled), variant.label)] = why

    def _stations(self, target: str) -> Iterator[_Station]:
        """Where the rule has something to do, those at which the same form is written together."""
        groups: dict[Any, list[tuple[RulePlan, int]]] = {}
        for opset in self._opsets():
            plan = self.rule.plan(target, opset)
            if isinstance(plan, RulePlan):
                groups.setdefault((plan.form.function, plan.needs), []).append((plan, opset))
        for members in groups.values():
            alike = tuple(opset for _, opset in members)
            yield from (_Station(target, opset, plan, alike) for plan, opset in reversed(members))

    def _opsets(self) -> list[int]:
        """Opsets at which an op of the rule changes, those of its forms and one below each, and the newest."""
        found = {OLDEST, self.newest}
        for form in self.rule.forms:
            found |= {form.opset, form.opset - 1}
        recognised = [pattern for form in self.rule.forms for pattern in self.rule.recognised(form)]
        functions = [*self.rule.patterns, *dict.fromkeys(recognised)]
        for compiled in (item for function in functions for item in self.rule.compiled(function)):
            for variant in self.candidates.variants(compiled.pattern):
                for operation in operations_of(compiled.pattern, variant):
                    if not operation.domain:
                        found |= {item.since_version for item in history("", operation.op)}
        return sorted(opset for opset in found if OLDEST <= opset <= self.newest)

    def _prove_variant(
        self, station: _Station, compiled: CompiledPattern, variant: PatternVariant, widest: int
    ) -> None:
        """Every shape and dtype of one way to write one pattern; outside the widest opset one shape that fires."""
        entries: list[InstanceProof] = []
        dropped: list[InstanceProof] = []
        is_full, needs = station.opset == widest, station.plan.needs
        tried = self.candidates.layouts_while(compiled.pattern, variant, widest, entries)
        for layout in chain(tried, self._searched(station, compiled, variant, opset=widest, entries=entries)):
            case = InstanceSpec(station.target, station.opset, compiled, variant=variant, layout=layout)
            of_layout = self._of_layout(case, needs, dropped)
            if not self.candidates.is_short(variant) and any(
                entry.standing is InstanceOutcome.PROVED for entry in of_layout
            ):
                self.candidates.proved_arguments.append(layout)
            if is_full and needs is None:
                entries += [*of_layout, *self._without_shapes(case)]
                continue
            fired = [entry for entry in of_layout if entry.standing is not InstanceOutcome.DECLINED]
            entries = of_layout if fired else entries or of_layout
            if fired or (entries and needs is not None):
                break
        self._add(entries or dropped[:1])

    def _of_layout(self, case: InstanceSpec, needs: int | None, dropped: list[InstanceProof]) -> list[InstanceProof]:
        """The instances of a case in every dtype; those that are none, it turns out, go to `dropped`."""
        found: list[InstanceProof] = []
        for dtype in DTYPES[:1] if needs is not None else self._dtypes(case):
            one = replace(case, dtype=dtype)
            model = self._written(one)
            if model is not None:
                finding = self._proved(one, model)
                (found if finding.is_instance else dropped).append(self._entry(one, model, finding))
        return found

    def _dtypes(self, case: InstanceSpec) -> Sequence[int]:
        """All dtypes; in a quick proof only for the first shapes of a rank and the first form of a pattern."""
        if not self.quick:
            return DTYPES
        first = self.candidates.of_rank(case.compiled.pattern, case.variant, case.opset, case.layout.rank)[:1]
        is_first = not self.candidates.is_short(case.variant) and any(layout is case.layout for layout in first)
        return DTYPES if is_first else DTYPES[:2]

    def _searched(
        self,
        station: _Station,
        compiled: CompiledPattern,
        variant: PatternVariant,
        opset: int,
        entries: Sequence[InstanceProof],
    ) -> Iterator[PatternArguments]:
        """Where the rule spares all usual shapes and values of a pattern: the first at which it fires."""
        if self.candidates.is_short(variant) or station.plan.needs is not None or not entries or is_told(entries):
            return
        names = parameters_of(compiled.pattern, variant)
        tensors = {name for name, var in names.items() if var.kind not in ("scalar", "list")}
        values = names.keys() - tensors
        same = [one for one in self.candidates.proved_arguments if (tensors, values) == ({*one.shapes}, {*one.values})]
        yield from same[:1]
        for rank in SEARCHED_RANKS:
            if is_told(entries):
                return
            for layout, model in islice(every_layout(compiled.pattern, variant, opset, rank), MOST_SEARCHED):
                if fires(model, self.rule, station.target):
                    yield layout
                    if is_told(entries):
                        return

    def _float(self, case: InstanceSpec) -> onnx.ModelProto | None:
        """The instance of a case in float32, written once for all targets."""
        key = id(case.variant), case.opset, case.layout.kind, str(case.layout)  # the candidates keep the variants
        if key not in self.floats:
            self.floats[key] = replace(case, dtype=FLOAT_DTYPES[0]).build()
        return self.floats[key]

    def _written(self, case: InstanceSpec) -> onnx.ModelProto | None:
        """The instance of a case; None where there is none or where it is that of float32 over again."""
        if case.dtype == FLOAT_DTYPES[0]:
            return self._float(case)
        model = case.build()
        return None if model is None or model == self._float(case) else model

    def _proved(self, case: InstanceSpec, model: onnx.ModelProto) -> InstanceResult:
        """What became of an instance; one of integers is spared where the pattern finds that of floats alone."""
        found = self.judging.found(case, model)
        if found.outcome is InstanceOutcome.NOT_MATCHED and case.dtype == TensorProto.INT64:
            floats = self._float(case)
            if floats is not None and self.judging.found(case, floats).outcome is not InstanceOutcome.NOT_MATCHED:
                return InstanceResult(InstanceOutcome.DECLINED, f"the pattern leaves integers: {found.reason}")
        return found

    def _without_shapes(self, case: InstanceSpec) -> Iterator[InstanceProof]:
        """The same without stated shapes, in float32, where that leads to another replacement.

        A scalar is not held against a rule that is not told the rank: few ops take it amiss, and few models have it.
        """
        model = self._float(case)
        if model is None or case.layout.kind != "shapes" or case.layout.rank == 0:
            return
        found = prove_without_shapes(model, self.rule, case.target, self.custom_ops)
        if found is not None:
            yield self._entry(replace(case, layout=replace(case.layout, kind="unstated")), model, found)

    def _entry(self, case: InstanceSpec, model: onnx.ModelProto, found: InstanceResult) -> InstanceProof:
        return InstanceProof(
            pattern=self._name(case.compiled),
            variant=case.variant.label,
            target=case.target,
            opset=case.opset,
            dtype=case.dtype_name(model),
            layout=case.layout,
            standing=found.outcome,
            reason=found.reason,
            error=found.error,
            model=model if found.outcome.is_fault else None,
        )

    def _name(self, compiled: CompiledPattern) -> str:
        """A pattern by its function; a form of a target by its kind, since its function may be called _."""
        pattern = compiled.pattern
        kind = next((form.kind for form in self.rule.forms if pattern.function in self.rule.recognised(form)), "")
        name = f"{kind} form" if kind else pattern.name
        siblings = self.rule.compiled(pattern.function)
        return name if len(siblings) == 1 else f"{name} {siblings.index(compiled) + 1}"
