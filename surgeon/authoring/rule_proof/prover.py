"""Proves a rule on instances built from its own patterns, for each target."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from surgeon.authoring.rule_proof.candidates import Candidates, has_results
from surgeon.authoring.rule_proof.differential import compare_outputs
from surgeon.authoring.rule_proof.dtype_assignment import FLOAT_DTYPES
from surgeon.authoring.rule_proof.instance_rewrite import InstanceRewrite, fires
from surgeon.authoring.rule_proof.instance_spec import InstanceSpec
from surgeon.authoring.rule_proof.instances import with_read_outputs
from surgeon.authoring.rule_proof.opset_range import (
    OLDEST,
    ModelFingerprint,
    at_oldest_opset,
    fingerprint,
    newest_opset,
)
from surgeon.authoring.rule_proof.pattern_arguments import PatternArguments, all_arguments, is_runnable
from surgeon.authoring.rule_proof.result import UNINFORMATIVE, InstanceOutcome, InstanceProof, InstanceResult, RuleProof
from surgeon.authoring.rule_proof.unknown_shapes import prove_without_shapes
from surgeon.authoring.rule_proof.variants import PatternVariant, operations_of, parameters_of
from surgeon.errors import CheckFailed, SurgeonError, Unavailable
from surgeon.ops.schemas import history
from surgeon.pipeline.acceptance.near_misses import misses_of_pattern
from surgeon.printed_commands import command
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import Outcome
from surgeon.rules.catalogue import all_rules
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.matcher import find
from surgeon.rules.rule import Rule, RulePlan
from surgeon.runtime.implementations.implementation import traits_of_files
from surgeon.runtime.inputs.input_generator import InputsUnknown, generate_inputs
from surgeon.runtime.inputs.role_fills import USUAL
from surgeon.text import join_first

SEARCHED_RANKS = (4, 3, 2)
MAX_SEARCHED = 160  # shapes and values tried at one rank, if the rule declines all usual ones
DTYPES = (*FLOAT_DTYPES, TensorProto.INT64)
Progress = Callable[[str, int], None]
KEPT = "must keep its name: it is an output of the graph"  # end of a reason that only instances have


def compare_zero_size(
    model: onnx.ModelProto, rewritten: onnx.ModelProto, custom_ops: Sequence[str | Path] = (), slack: float = 0.0
) -> InstanceResult:
    """Compare both models on an input without elements.

    Shapes, dtypes and the values of outputs with elements must agree, such as a sum over nothing.  If a kernel refuses
    an input that its op allows, onnx's ReferenceEvaluator runs the rewritten model.
    custom_ops, slack: as for `compare_outputs`.
    """
    try:
        feeds = generate_inputs(model, seed=0, dims={})
    except InputsUnknown as unknown:
        return InstanceResult(InstanceOutcome.UNPROVED, f"no inputs were found: {unknown.reason}", is_instance=False)
    inputs = [(USUAL, feeds)]
    found = compare_outputs(model, rewritten, inputs, custom_ops=custom_ops, slack=slack)
    if found.outcome is InstanceOutcome.FAILED and found.error is None:  # it does not run
        defined = compare_outputs(model, rewritten, inputs, custom_ops=custom_ops, slack=slack, by_definition=True)
        if defined.outcome is InstanceOutcome.PROVED:
            return replace(defined, reason=f"equal by the definitions of the ops, but {found.reason}")
    return replace(found, reason=f"for an input without elements: {found.reason}") if found.reason else found


class InstanceJudge:
    """Proves instances of one rule.  custom_ops: libraries and Python files that implement ops.  cache: as there."""

    def __init__(self, rule: Rule, custom_ops: Sequence[str | Path], *, cache: bool) -> None:
        self.rule, self.custom_ops, self.cache = rule, custom_ops, cache
        self._findings: dict[tuple[ModelFingerprint, ModelFingerprint, str], InstanceResult] = {}

    def found(self, case: InstanceSpec, model: onnx.ModelProto) -> InstanceResult:
        """The result for an instance; if the rule refuses a graph output, the result with a consumer of it."""
        found = self._found(case, model)
        return self._found(case, with_read_outputs(model)) if found.reason.endswith(KEPT) else found

    def _found(self, case: InstanceSpec, model: onnx.ModelProto) -> InstanceResult:
        try:
            trial = InstanceRewrite(model, self.rule, case.target)
            if not trial.has_fired:
                return _unfired(trial, case.compiled)
            rewritten = trial.rewritten
        except SurgeonError as error:
            return InstanceResult(InstanceOutcome.FAILED, str(error))
        before, after = fingerprint(model), fingerprint(rewritten)
        key = before, after, case.arguments.kind
        if key not in self._findings:
            found = self._judged(case, trial)
            is_informative = not found.reason.startswith(UNINFORMATIVE)
            if found.outcome is InstanceOutcome.UNPROVED and found.is_instance and is_informative:
                older = at_oldest_opset(trial.model, before, after)
                found = self._judged_older(case, older, before, after) or found
            self._findings[key] = replace(found, assumptions=trial.assumptions)
        return self._findings[key]

    def _judged(self, case: InstanceSpec, trial: InstanceRewrite) -> InstanceResult:
        if case.arguments.kind == "empty":
            return compare_zero_size(trial.model, trial.rewritten, self.custom_ops, self.rule.approximate)
        return self._checked(case, trial)

    def _judged_older(
        self, case: InstanceSpec, older: onnx.ModelProto | None, before: ModelFingerprint, after: ModelFingerprint
    ) -> InstanceResult | None:
        """The result at an equivalent older opset, where ONNX Runtime may have kernels; None if it is unproved."""
        if older is None:
            return None
        trial = InstanceRewrite(older, self.rule, case.target)
        if (fingerprint(older), fingerprint(trial.rewritten)) != (before, after):
            return None
        found = self._judged(case, trial)
        return None if found.outcome is InstanceOutcome.UNPROVED else found

    def _checked(self, case: InstanceSpec, trial: InstanceRewrite) -> InstanceResult:
        """The result of the check of a rewrite."""
        try:
            dims = case.arguments.dims()
            proof = trial.proved(CheckOptions(dims=dims, custom_ops=self.custom_ops, cache=self.cache))
        except CheckFailed as error:
            return InstanceResult(InstanceOutcome.FAILED, str(error))
        if proof is None:  # nothing was rewritten, which the caller has ruled out
            return InstanceResult(InstanceOutcome.UNPROVED, "the check did not run")
        is_instance = proof.outcome is not Outcome.UNPROVED or is_runnable(trial.model, self.custom_ops)
        return InstanceResult(InstanceOutcome(proof.outcome.value), proof.reason, proof.worst, is_instance)


def _unfired(trial: InstanceRewrite, compiled: CompiledPattern) -> InstanceResult:
    """DECLINED if the pattern matches its instance and the rule refuses it; else NOT_MATCHED."""
    index = trial.run.index
    if next(find(index, compiled, index.scopes[0]), None) is not None:
        refusals = trial.mismatches
        return InstanceResult(InstanceOutcome.DECLINED, refusals[0].reason if refusals else "the rule rejects it")
    misses = sorted(misses_of_pattern(index, compiled, index.scopes[0]), key=lambda miss: -miss.matched)
    reason = f"{misses[0].reason} ({misses[0].where})" if misses else "no node can be the root of the pattern"
    return InstanceResult(InstanceOutcome.NOT_MATCHED, reason)


def prove_rule(
    rule: Rule,
    *,
    targets: Sequence[str] | None = None,
    quick: bool = False,
    custom_ops: Sequence[str | Path] = (),
    progress: Progress | None = None,
    cache: bool = True,
) -> RuleProof:
    """Prove a rule on instances made from its own patterns.

    For each target (None: all targets of the rule) and each pattern for it, the instances cover: every form of the
    pattern; every opset at which its ops or the forms of the rule change; float32, float16, float64, bfloat16 and int64
    if the ops accept them; ranks 0 to 4; broadcasting shapes; dims of size 1 and 0; and unknown shapes.  Each
    instance goes through `rewrite` and its check.

    quick: only the newest opset of each form and fewer ranks and shapes.  All but the first shapes of a rank have two
    dtypes, and all but the first form of a pattern one set of shapes.  Further ranks are tried only if all instances
    are declined, and one target's proof of a pattern and a form counts for another.  custom_ops: libraries and Python
    files that implement ops, as for `rewrite`.  progress: called with the rule's name and the number of entries so far.
    cache: remember proofs from run to run.  Raises RuleError for a pattern that cannot be traced.
    """
    started = time.perf_counter()
    with traits_of_files(custom_ops):
        judging = InstanceJudge(rule, custom_ops, cache=cache)
        made = _RuleProver(judging, targets or rule.targets, quick, progress=progress).run()
    made.seconds = time.perf_counter() - started
    return made


@dataclass(frozen=True, slots=True)
class _TargetPlan:
    """The plan of a rule for a target at an opset."""

    target: str
    """The name of the target."""
    opset: int
    """The version of ai.onnx."""
    plan: RulePlan
    """The patterns and the form of the rule there."""
    alike: tuple[int, ...]
    """All opsets with the same form."""


class _RuleProver:
    """Proves one rule; equal pairs of models are checked once."""

    def __init__(
        self, judging: InstanceJudge, targets: Sequence[str], quick: bool, progress: Progress | None
    ) -> None:
        rule = self.rule = judging.rule
        self.targets, self.quick, self.progress = targets, quick, progress
        self.proof = RuleProof(rule.name, rule.where)
        self.newest = newest_opset()
        self.judging, self.candidates = judging, Candidates(quick, judging.custom_ops)
        self.floats: dict[tuple[int, int, str, str], onnx.ModelProto | None] = {}

    def run(self) -> RuleProof:
        """Prove each target, opset, pattern and variant; equal plans of several targets are proved once."""
        known: dict[Any, list[InstanceProof]] = {}
        for at in (at for target in self.targets for at in self._target_plans(target)):
            plan = at.plan
            for compiled in plan.sources if self.rule.patterns else ():  # a rule with a search has no instances
                key = self._key(at, compiled)
                before = len(self.proof.entries)
                if key in known and plan.needs is None:  # the reason for an old opset names the target
                    self._add([replace(entry, target=at.target) for entry in known[key]])
                    continue
                for variant in self.candidates.variants(compiled.pattern):
                    widest = self.candidates.widest(compiled.pattern, variant, at.alike)
                    if at.opset == widest or not (self.quick or plan.needs is not None):
                        self._prove_variant(at, compiled, variant, widest)
                known[key] = self.proof.entries[before:]
        self.proof.drop_uninformative()
        self._record_not_instantiated()
        self.proof.why_empty = "" if self.proof.entries else self._why_nothing()
        return self.proof

    def _why_nothing(self) -> str:
        """Why the rule has no entries, and how to prove it otherwise."""
        is_installed = any(rule is self.rule for _, _, rule in all_rules())
        name = self.rule.name if is_installed else f"FILE.py:{self.rule.name}"
        elsewhere = f"prove it in a model that has a site: {command('rewrite', 'IN', 'OUT', '--rules', name)}"
        if not self.rule.patterns:
            return f"it finds its sites by a search, so no instance can be generated; {elsewhere}"
        plans = [self.rule.plan(target, self.newest) for target in self.targets]
        if plans and all(isinstance(plan, Unavailable) for plan in plans):
            return "; ".join(plan.reason for plan in plans if isinstance(plan, Unavailable))
        unmade = self.proof.not_instantiated.items()
        why = [f"{name}{f' ({variant})' if variant else ''}: {reason}" for (name, variant), reason in unmade]
        return (
            f"no instance can be generated from its patterns ({join_first(why, 3)}), for example because a custom op "
            f"accepts few values of an attribute; write such a value into the pattern, or {elsewhere}"
        )

    def _key(self, at: _TargetPlan, compiled: CompiledPattern) -> Any:
        """Everything that the results of a pattern depend on: the form, the opsets, and the competing patterns.

        A quick proof assumes that the pattern matches before competing ones.
        """
        plan = at.plan
        sources = () if self.quick else tuple(map(id, plan.sources))
        return id(compiled), sources, plan.form, plan.needs, plan.others, plan.newer, at.opset, at.alike

    def _add(self, entries: Sequence[InstanceProof]) -> None:
        for entry in entries:
            self.proof.entries.append(entry)
            if self.progress is not None:
                self.progress(self.rule.name, len(self.proof.entries))

    def _record_not_instantiated(self) -> None:
        """Record the variants without an instance, with the reason."""
        for function in self.rule.patterns:
            for compiled in self.rule.compiled(function):
                for variant in self.candidates.variants(compiled.pattern):
                    why = self.candidates.not_instantiated_reason(compiled.pattern, variant)
                    if why:
                        self.proof.not_instantiated[(self._name(compiled), variant.label)] = why

    def _target_plans(self, target: str) -> Iterator[_TargetPlan]:
        """The opsets at which the rule has a plan, grouped by the form."""
        groups: dict[Any, list[tuple[RulePlan, int]]] = {}
        for opset in self._opsets():
            plan = self.rule.plan(target, opset)
            if isinstance(plan, RulePlan):
                groups.setdefault((plan.form.function, plan.needs), []).append((plan, opset))
        for members in groups.values():
            alike = tuple(opset for _, opset in members)
            yield from (_TargetPlan(target, opset, plan, alike) for plan, opset in reversed(members))

    def _opsets(self) -> list[int]:
        """The opsets at which an op of the rule changes, those of its forms, the one below each, and the newest."""
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
        self, at: _TargetPlan, compiled: CompiledPattern, variant: PatternVariant, widest: int
    ) -> None:
        """Prove all shapes and dtypes of a variant; at opsets other than the widest, one shape at which it fires."""
        entries: list[InstanceProof] = []
        dropped: list[InstanceProof] = []
        is_full, needs = at.opset == widest, at.plan.needs
        tried = self.candidates.arguments_while(compiled.pattern, variant, widest, entries)
        for arguments in chain(tried, self._searched(at, compiled, variant, opset=widest, entries=entries)):
            case = InstanceSpec(at.target, at.opset, compiled, variant=variant, arguments=arguments)
            of_arguments = self._of_arguments(case, needs, dropped)
            if not self.candidates.is_short(variant) and any(
                entry.outcome is InstanceOutcome.PROVED for entry in of_arguments
            ):
                self.candidates.proved_arguments.append(arguments)
            if is_full and needs is None:
                entries += [*of_arguments, *self._without_shapes(case)]
                continue
            fired = [entry for entry in of_arguments if entry.outcome is not InstanceOutcome.DECLINED]
            entries = of_arguments if fired else entries or of_arguments
            if fired or (entries and needs is not None):
                break
        self._add(entries or dropped[:1])

    def _of_arguments(self, case: InstanceSpec, needs: int | None, dropped: list[InstanceProof]) -> list[InstanceProof]:
        """The proofs of an instance in every dtype; invalid instances go to `dropped`."""
        found: list[InstanceProof] = []
        for dtype in DTYPES[:1] if needs is not None else self._dtypes(case):
            one = replace(case, dtype=dtype)
            model = self._written(one)
            if model is not None:
                finding = self._proved(one, model)
                (found if finding.is_instance else dropped).append(self._entry(one, model, finding))
        return found

    def _dtypes(self, case: InstanceSpec) -> Sequence[int]:
        """The dtypes; in a quick proof all of them only for the first shapes of a rank and the first variant."""
        if not self.quick:
            return DTYPES
        first = self.candidates.of_rank(case.compiled.pattern, case.variant, case.opset, case.arguments.rank)[:1]
        is_first = not self.candidates.is_short(case.variant) and any(one is case.arguments for one in first)
        return DTYPES if is_first else DTYPES[:2]

    def _searched(
        self,
        at: _TargetPlan,
        compiled: CompiledPattern,
        variant: PatternVariant,
        opset: int,
        entries: Sequence[InstanceProof],
    ) -> Iterator[PatternArguments]:
        """If the rule declines all usual shapes and values: the first at which it fires."""
        if self.candidates.is_short(variant) or at.plan.needs is not None or not entries or has_results(entries):
            return
        names = parameters_of(compiled.pattern, variant)
        tensors = {name for name, var in names.items() if var.kind not in ("scalar", "list")}
        values = names.keys() - tensors
        same = [one for one in self.candidates.proved_arguments if (tensors, values) == ({*one.shapes}, {*one.values})]
        yield from same[:1]
        for rank in SEARCHED_RANKS:
            if has_results(entries):
                return
            for arguments, model in islice(all_arguments(compiled.pattern, variant, opset, rank), MAX_SEARCHED):
                if fires(model, self.rule, at.target):
                    yield arguments
                    if has_results(entries):
                        return

    def _float(self, case: InstanceSpec) -> onnx.ModelProto | None:
        """The instance in float32, built once for all targets."""
        # self.candidates keeps the variants, and so their ids
        key = id(case.variant), case.opset, case.arguments.kind, str(case.arguments)
        if key not in self.floats:
            self.floats[key] = replace(case, dtype=FLOAT_DTYPES[0]).build()
        return self.floats[key]

    def _written(self, case: InstanceSpec) -> onnx.ModelProto | None:
        """The instance; None if there is none or if it equals that of float32."""
        if case.dtype == FLOAT_DTYPES[0]:
            return self._float(case)
        model = case.build()
        return None if model is None or model == self._float(case) else model

    def _proved(self, case: InstanceSpec, model: onnx.ModelProto) -> InstanceResult:
        """The result for an instance; for integers DECLINED if the pattern only matches floats."""
        found = self.judging.found(case, model)
        if found.outcome is InstanceOutcome.NOT_MATCHED and case.dtype == TensorProto.INT64:
            floats = self._float(case)
            if floats is not None and self.judging.found(case, floats).outcome is not InstanceOutcome.NOT_MATCHED:
                return InstanceResult(InstanceOutcome.DECLINED, f"the pattern does not match integers: {found.reason}")
        return found

    def _without_shapes(self, case: InstanceSpec) -> Iterator[InstanceProof]:
        """The proof in float32 without shapes, if the replacement differs.

        Scalars are skipped: few ops treat an unknown rank wrongly for them, and few models have them.
        """
        model = self._float(case)
        if model is None or case.arguments.kind != "shapes" or case.arguments.rank == 0:
            return
        found = prove_without_shapes(model, self.rule, case.target, self.judging.custom_ops)
        if found is not None:
            yield self._entry(replace(case, arguments=replace(case.arguments, kind="unstated")), model, found)

    def _entry(self, case: InstanceSpec, model: onnx.ModelProto, found: InstanceResult) -> InstanceProof:
        return InstanceProof(
            pattern=self._name(case.compiled),
            variant=case.variant.label,
            target=case.target,
            opset=case.opset,
            dtype=case.dtype_name(model),
            arguments=case.arguments,
            outcome=found.outcome,
            reason=found.reason,
            error=found.error,
            assumptions=found.assumptions,
            model=model if found.outcome.is_fault else None,
        )

    def _name(self, compiled: CompiledPattern) -> str:
        """The name of a pattern: its function, or the kind of its form, since that function may be called _."""
        pattern = compiled.pattern
        kind = next((form.kind for form in self.rule.forms if pattern.function in self.rule.recognised(form)), "")
        name = f"{kind} form" if kind else pattern.name
        siblings = self.rule.compiled(pattern.function)
        return name if len(siblings) == 1 else f"{name} {siblings.index(compiled) + 1}"
