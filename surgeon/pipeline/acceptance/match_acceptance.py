"""Decides whether a match may be rewritten: conditions, form at this opset, schemas, kernels, names.

Rewriting and explaining share this decision.  Equal matches share one replacement, which is checked against schemas.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from surgeon.errors import ConditionFailed, OpsetError, RewriteError, RuleError, SurgeonError
from surgeon.ir.index import Index
from surgeon.ops.schemas import knows_domain
from surgeon.ops.schemas.attribute_values import dtype_name, dtype_word
from surgeon.ops.schemas.node_check import check_node, opset_mismatch
from surgeon.pipeline.acceptance.kernel_support import (
    MissingKernel,
    first_supported_opset,
    is_supported_now,
    limits_for,
    resolve_provider,
    supported_before,
    violated_limit,
)
from surgeon.pipeline.acceptance.replacement_cache import Decision, Refusal, ReplacementCache
from surgeon.printed_commands import command, upgrade_to
from surgeon.rules.matching.captured_tensor import ASSUMED
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match import Match
from surgeon.rules.mismatches.mismatch import FailureKind, MatchFailure
from surgeon.rules.mismatches.model_fixes import suggest_assumption
from surgeon.rules.replacing.replacement import Replacement
from surgeon.rules.replacing.splicer import Splicer, opset_to_import
from surgeon.rules.rule import Rule, RulePlan, describe_rule_error, error_with_line
from surgeon.runtime.provider_support import CPU
from surgeon.shapes.dtype_inference import mixed_dtypes
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.tensor_types import size_text
from surgeon.target_registry import beside, provider, target_of
from surgeon.text import close_matches

if TYPE_CHECKING:
    from surgeon.targets.op_limits import NodeLimits


KINDS: dict[str, FailureKind] = {"dtype": "dtype", "shape": "shape condition"}


class MatchDeclined(Exception):
    """A match may not be rewritten.

    Attributes:
        finding: Why.
        is_of_form: Whether another form of the rule might be accepted.
        fragment: Replacement that is valid except that the target does not run it; None if it is invalid.
    """

    def __init__(
        self, finding: MatchFailure, advice: str = "", *, is_of_form: bool = False, fragment: Replacement | None = None
    ) -> None:
        """advice: the next step, appended to the sentence of the finding."""
        super().__init__(finding.sentence + advice)
        self.finding, self.is_of_form, self.fragment = finding, is_of_form, fragment


@dataclass(slots=True)
class MatchAcceptance:
    """Decides whether a match may be rewritten, and builds its replacement. Edits nothing."""

    index: Index
    """Model that is rewritten."""
    target: str
    """Name of the target."""
    cache: ReplacementCache
    """Replacements of earlier matches."""
    splicer: Splicer
    """Checks whether a replacement can be inserted."""
    provider: str | None = None
    """Execution provider that must have kernels for the replacement; None for any."""
    limits: "NodeLimits | None" = None
    """Limits of the target on single nodes; None if it has none."""
    loader: str | None = None
    """Provider that must load the replacement where `provider` is None; None to load nothing."""
    is_strict: bool = False
    """Whether an exception of a built-in rule is raised, as that of any other rule, instead of declining the match."""

    @classmethod
    def over(
        cls, index: Index, target: str, ep: str | None = None, splicer: Splicer | None = None
    ) -> "MatchAcceptance":
        """An acceptance with a new cache.  ep: execution provider; None for the default of the target."""
        provider = resolve_provider(target, ep)
        limits = limits_for(target, provider, index)
        loader = CPU if provider is None and ep is None else None
        cache = ReplacementCache(index, provider, target_of(target).providers or None, loader)
        return cls(
            index, target, cache, splicer=splicer or Splicer(index), provider=provider, limits=limits, loader=loader
        )

    def runs(self, rule: Rule) -> bool:
        """Whether a rule is for the execution provider of this run or for any."""
        return rule.ep in (None, self.provider)

    def replacement(self, rule: Rule, plan: RulePlan, compiled: CompiledPattern, match: Match) -> Replacement:
        """The replacement of a match: by the form of the plan, else by the first other form that is accepted.

        A replacement that the target does not run is accepted only if its provider has no kernels for the match
        either.  Raises MatchDeclined if the match must stay, RuleError or RewriteError if the rule itself is wrong.  If
        a built-in rule raises, mostly at an invalid node, the match stays: the user cannot correct the rule.
        """
        try:
            return self._build(rule, plan, compiled, match)
        except MatchDeclined as declined:
            fragments = [declined.fragment]
            for form in plan.others if declined.is_of_form else ():
                try:
                    return self._build(rule, replace(plan, form=form), compiled, match)
                except MatchDeclined as other:
                    fragments.append(other.fragment)
            best = next((fragment for fragment in fragments if fragment is not None), None)
            asked = self.provider or self.loader
            is_foreign = self.provider is None and not all(knows_domain(node.proto.domain) for node in match.nodes)
            if best is None or asked is None or (supported_before(asked, match) and not is_foreign):
                raise
            return best  # nothing is lost: the match cannot run either

    def _build(self, rule: Rule, plan: RulePlan, compiled: CompiledPattern, match: Match) -> Replacement:
        """The replacement by the form of a plan.  Raises as `replacement`."""
        if not rule.mixed and (mixed := mixed_dtypes(match.nodes, shapes_of(match.index).dtype)) is not None:
            raise MatchDeclined(replace(_finding("dtype", compiled, match, mixed[1]), at=mixed[0].label))
        alike = self.cache.site_class(plan, compiled, match)
        decision = self.cache.known(alike, match)
        if alike.is_settled and isinstance(decision, tuple) and decision[0] is not None:
            return decision[0]
        match.asked_last = None
        if not self.runs(rule):
            raise MatchDeclined(_finding("target", compiled, match, provider_mismatch(rule)))
        if rule.dtypes and match.outputs:
            _require_dtype(rule, compiled, match)
        if plan.lacking and is_supported_now(self.target, self.provider, self.limits, match):
            raise MatchDeclined(_finding("target", compiled, match, f"{target_of(self.target).title} runs it as it is"))
        if decision is None:
            decision = self._decide(rule, plan, compiled, match)
            self.cache.keep(alike, match, decision)
        if isinstance(decision, Refusal):
            match.asked_last = decision.asked_last
            finding = _finding(decision.kind, compiled, match, decision.why)
            raise MatchDeclined(finding, is_of_form=decision.is_of_form)
        fragment, lacking = decision
        if fragment is None:
            raise self._opset_too_old(match, plan.needs or 0)
        try:
            self.splicer.require_writable(match, fragment)
        except ConditionFailed as refusal:
            raise MatchDeclined(_finding("target", compiled, match, str(refusal)), is_of_form=True) from refusal
        if lacking is not None:
            raise self._no_kernel(rule, plan, match, lacking=lacking, fragment=fragment)
        beyond = None if self.limits is None else violated_limit(self.limits, match, fragment)
        if beyond is not None:
            raise self._beyond_limit(match, *beyond, fragment)
        alike.is_settled = not plan.lacking and self.limits is None and fragment.fits_anywhere
        return fragment

    def _decide(self, rule: Rule, plan: RulePlan, compiled: CompiledPattern, match: Match) -> Decision:
        """The decision of the rule and the schemas about a match; the same for equal matches with equal facts."""
        step: FailureKind = "condition"
        fragment: Replacement | None = None
        is_of_form = False
        match.inspected = match.asked_dtype = match.asked_shape = False
        try:
            _require_opset(compiled, match)
            match.require_claims()
            for condition in plan.conditions:
                self.cache.require(condition, match)
            if plan.needs is not None:
                return None, None
            is_of_form = True
            fragment = self.cache.build(plan.form.function, match)
            step = "schema"
            return fragment, self.cache.require_valid(match, fragment)
        except OpsetError as error:
            needs = error.needs if match.scope.function is None else None
            change = f"raise the opset: {upgrade_to(needs)}" if needs else ""
            finding = _finding("opset", compiled, match, str(error).rstrip("."))
            finding = replace(finding, change=change, opset=needs or 0)
            raise MatchDeclined(finding, is_of_form=is_of_form) from error
        except ConditionFailed as refusal:
            if step == "schema" and fragment is not None and _is_about_dtypes(match, fragment):
                step = "dtype"
            return Refusal(step, str(refusal), match.asked_last, is_of_form)
        except Exception as error:
            ours = SurgeonError, MatchDeclined
            is_of_rule = isinstance(error, RuleError) or not isinstance(error, (*ours, MemoryError))
            if is_of_rule and rule.is_built_in and not self.is_strict:
                return Refusal("error", f"the rule raised {error_with_line(rule, error)}", None, is_of_form)
            if isinstance(error, RuleError):
                raise RuleError(f"Rule {rule.name} ({rule.where}): {error}") from error
            if isinstance(error, ours):
                raise
            raise RewriteError(describe_rule_error(rule, error, f"at node {match.root.label!r}")) from error

    def _beyond_limit(self, match: Match, reason: str, help_: str, fragment: Replacement) -> MatchDeclined:
        """A limit of the target excludes a node of the replacement."""
        where, wanted, at = match.pattern.where, f"a node that target {self.target} supports", match.root.label
        reason = "; ".join(filter(None, (reason, help_)))
        return MatchDeclined(
            MatchFailure("kernel", wanted, "", seen="", message=reason, where=where, at=at),
            is_of_form=True,
            fragment=fragment,
        )

    def _no_kernel(
        self, rule: Rule, plan: RulePlan, match: Match, lacking: MissingKernel, fragment: Replacement
    ) -> MatchDeclined:
        """The execution provider has no kernel for a node of the replacement."""
        raised = lacking.opset or (first_supported_opset(self.provider, rule, plan, match) if self.provider else None)
        if raised is None or match.scope.function is not None:
            raised = 0
        change = f"raise the opset: {upgrade_to(raised)}" if raised else ""
        where, wanted, at = match.pattern.where, f"a kernel for {lacking.op}", match.root.label
        finding = MatchFailure(
            "kernel", wanted, "none", seen="", message=lacking.reason, change=change, where=where, at=at, opset=raised
        )
        return MatchDeclined(finding, f"; or {change}" if change else "", is_of_form=True, fragment=fragment)

    def _opset_too_old(self, match: Match, needs: int) -> MatchDeclined:
        scope = match.scope
        wants = f"the form for target {self.target} needs opset {needs}"
        if scope.function is not None:
            reason, change = f"{wants}, but {scope.function.label} imports opset {scope.opset}", ""
            advice, opset = "; export the model with a newer opset", 0
        else:
            upgrade = upgrade_to(needs)
            reason, change = f"{wants} and the model has {scope.opset}", f"raise the opset: {upgrade}"
            advice, opset = f"; raise it with: {upgrade}", needs
        found, at = f"opset {scope.opset}", match.root.label
        finding = MatchFailure(
            "opset",
            f"opset {needs}",
            found,
            seen="",
            message=reason,
            change=change,
            where=match.pattern.where,
            op="",
            at=at,
            opset=opset,
        )
        return MatchDeclined(finding, advice)


def _require_opset(compiled: CompiledPattern, match: Match) -> None:
    """Raise MatchDeclined for a node that does not fit the declared opset: its meaning is unknown."""
    opset = match.scope.versions.get("", 1)
    for node in match.nodes:
        found = opset_mismatch(node.proto, opset) if node.original else None
        if found:
            why = f"{found.rstrip('.')} at opset {opset}, which the model declares"
            why += f"; list the remedies: {command('check', 'IN')}"
            raise MatchDeclined(replace(_finding("opset", compiled, match, why), at=node.label))


def provider_mismatch(rule: Rule) -> str:
    """Why a rule for another execution provider does not fire."""
    reason, name = f"the rule supports only the execution provider {rule.ep}", rule.ep or ""
    near = [] if provider(name) else close_matches(name, [one.name for one in beside(name)], 1)
    return f"{reason} (did you mean {near[0]!r}?)" if near else reason


def _finding(kind: FailureKind, compiled: CompiledPattern, match: Match, why: str) -> MatchFailure:
    """A refusal as a record.  Its subject is the tensor that the condition inspected last."""
    asked, found, at, assumption = match.asked_last, "", match.root.label, ""
    if asked is not None and kind == "condition":
        kind = KINDS.get(asked[0], kind)
        at = match.tensor(asked[1])
        found = _type_text(match, at)
        if asked[0].startswith(ASSUMED):
            assumption = suggest_assumption(match.index, match.scope, at, asked[0].removeprefix(ASSUMED))
    change = f"if your inputs obey it, add --assume '{assumption}'" if assumption else ""
    seen, where = f"for {at!r}" if found else "", compiled.pattern.where
    failure = MatchFailure(kind, why, found, seen=seen, message=why, change=change, where=where, at=at)
    return replace(failure, assumption=assumption)


def _require_dtype(rule: Rule, compiled: CompiledPattern, match: Match) -> None:
    """Raise MatchDeclined if the rule is not for the dtype of the first output of a match."""
    name = match.outputs[0]
    dtype = shapes_of(match.index).dtype(match.scope, name)
    found = "unknown" if dtype is None else dtype_name(dtype)
    if found not in rule.dtypes:
        wanted = " or ".join(rule.dtypes)
        reason = f"the rule supports only {wanted}, but the dtype of its output {name!r} is {found}"
        raise MatchDeclined(
            MatchFailure(
                "dtype", wanted, found, seen=f"in {name!r}", message=reason, where=compiled.pattern.where, at=name
            )
        )


def _type_text(match: Match, name: str) -> str:
    """Dtype and shape of a tensor as text: float[n, 4]."""
    dtype, shape = shapes_of(match.index).facts(match.scope, name)
    text = dtype_word(dtype) if dtype is not None else "unknown dtype"
    if shape is None:
        return f"{text}, rank unknown"
    return f"{text}[{', '.join(map(size_text, shape))}]"


def _is_about_dtypes(match: Match, fragment: Replacement) -> bool:
    """Whether a replacement would fit its schemas if no dtypes were known."""
    scope = match.scope
    for node in fragment.as_protos():
        opset = scope.versions.get(node.domain) or opset_to_import(node.domain, node.op_type)
        if check_node(node, opset, lambda _: None, scope.function is not None):
            return False
    return True
