"""Whether a match may be rewritten: by the rule's conditions, the form at this opset, schemas, kernels, and names.

The rewrite and its explanation accept by this one function.  Replacements are made once for all matches that are
alike, and held against the schemas.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import onnx

from surgeon.errors import OpsetError, Refused, RewriteError, RuleError, SurgeonError
from surgeon.indexing.index import Index
from surgeon.indexing.scope import Scope
from surgeon.matching.compile import Compiled
from surgeon.matching.match import Match
from surgeon.matching.state import Several
from surgeon.misses.findings import Finding, Kind
from surgeon.ops.attributes import dtype_name, dtype_word
from surgeon.ops.node_check import check_node
from surgeon.ops.schemas import dtype_number, learn_dtypes, schema
from surgeon.rewriting.runnable import (
    NoKernel,
    broken_limit,
    had_kernels,
    lacking_kernel,
    later_opset,
    limits_for,
    provider_of,
    runs_already,
)
from surgeon.rules.rule import Plan, Rule, broken
from surgeon.shapes.facts import spelled
from surgeon.shapes.indexed import shapes_of
from surgeon.splicing.fragment import Fragment, Ref, build, call_with_captures
from surgeon.splicing.splice import Splicer, import_version
from surgeon.target import Provider, target_of

T = TypeVar("T")
NOTHING, DTYPES, SHAPES = range(3)
PLAIN = (bool, int, float, str, type(None))


@dataclass(slots=True)
class _Sayings:
    """What a function said, and what it asked last, by the facts that it may ask for; asks: how far it went for them.

    What it said before it went further is not found any more: the facts are others.
    """

    asks: int = NOTHING
    by_facts: dict[Any, tuple[Any, Any]] = field(default_factory=dict)


class Workshop:
    """The fragments of one run.

    What a rule's function says of one match, and the fragment that it builds, serve every match that gives it the same
    answers: the same numbers bound and, if it asked for them, the same dtypes and shapes.  Of one that looked at more,
    at the values of a weight, say, nothing is kept.
    """

    def __init__(
        self, index: Index, provider: str | None = None, among: Collection[Provider] | None = None
    ) -> None:
        """provider: the execution provider that is to run what is made, None for any.  among: others of the target."""
        self._index, self._provider, self._among = index, provider, among
        self._said: dict[Any, _Sayings] = {}
        self._run: dict[Any, NoKernel | None] = {}
        self._checked: dict[Any, tuple[Fragment, NoKernel | None]] = {}  # keeps alive what it knows by id

    def require(self, condition: Callable[..., Any], compiled: Compiled, match: Match) -> None:
        """Hold a match against a condition of its rule.  Raises Refused where it does not hold."""
        why = self._once(condition, compiled, match, lambda: _refused(condition, match))
        if why is not None:
            raise Refused(why)

    def build(self, plan: Plan, compiled: Compiled, match: Match) -> Fragment:
        """The replacement of a match.  Raises what the rule's own code raises, Refused among it."""
        function = plan.form.function
        return self._once(function, compiled, match, lambda: build(function, match))

    def _once(self, function: Callable[..., Any], compiled: Compiled, match: Match, call: Callable[[], T]) -> T:
        """What a rule's function says of a match, asked for only where no match with the same answers was before."""
        bound = tuple([(name, _written(held)) for name, held in match.bound.items()])
        kind = (function, compiled, match.scope.opset, id(match.scope.versions), len(match.outputs), bound)
        said = self._said.get(kind)
        known = None if said is None else said.by_facts.get(self._facts(match, said.asks))
        if known is not None:
            match.asked_last = known[1] or match.asked_last
            found: T = known[0]
            return found
        before, match.asked_last = match.asked_last, None
        match.inspected = match.asked_dtype = match.asked_shape = False
        try:
            found = call()
        finally:
            asked, match.asked_last = match.asked_last, match.asked_last or before
        if not match.inspected and all(_is_plain(held) for held in match.bound.values()):
            said = self._said.setdefault(kind, _Sayings())
            said.asks = max(said.asks, SHAPES if match.asked_shape else DTYPES if match.asked_dtype else NOTHING)
            said.by_facts[self._facts(match, said.asks)] = found, asked
        return found

    def _facts(self, match: Match, asks: int) -> tuple[Any, ...]:
        """What there is to be asked of the captured tensors, so far as this goes."""
        if asks == NOTHING:
            return ()
        shapes, scope = shapes_of(self._index), match.scope
        ask = shapes.facts if asks == SHAPES else shapes.dtype
        names = [held if isinstance(held, Several) else (held,) for held in match.bound.values()]
        return tuple([ask(scope, name) for held in names for name in held if isinstance(name, str)])

    def require_valid(self, match: Match, fragment: Fragment) -> NoKernel | None:
        """Refuse a replacement whose nodes break their schemas, before anything is edited.

        Returns the node that the execution provider cannot run, if there is one.  Raises Refused where it does not suit
        this model, RuleError where it would suit none.
        """
        scope, shapes = match.scope, shapes_of(self._index)
        dtypes = {key: shapes.dtype(scope, match.tensor(key)) for key in fragment.captures}
        made = tuple([shapes.dtype(scope, name) for name in match.outputs])
        key = (id(fragment), tuple(dtypes.values()), made, scope.opset)
        if key in self._checked:
            return self._checked[key][1]
        known = {str(Ref("capture", key)): dtype for key, dtype in dtypes.items()}
        for place, constant in enumerate(fragment.constants):
            if constant.like is None and constant.values.dtype.kind != "S":
                known[str(Ref("constant", place))] = dtype_number(constant.values.dtype)
        for ref, dtype in zip(fragment.outputs, made, strict=True):
            known.setdefault(str(ref), dtype)
        nodes = list(fragment.as_protos())
        for node in nodes:
            opset = scope.versions.get(node.domain) or import_version(node.domain, node.op_type)
            complaints = check_node(node, opset, known.get, scope.function is not None)
            if complaints:
                _refuse_at_any_opset(node, scope.function is not None)
                raise Refused(f"what would be written breaks its schema: {complaints[0]}")
            learn_dtypes(node, opset, known)
        lacking = self._lacking(fragment, nodes, known, scope)
        self._checked[key] = fragment, lacking
        return lacking

    def _lacking(
        self, fragment: Fragment, nodes: list[onnx.NodeProto], known: dict[str, int | None], scope: Scope
    ) -> NoKernel | None:
        """The node that the provider cannot run; asked once for all fragments of the same nodes and dtypes."""
        if self._provider is None:
            return None
        wired = tuple([(node.kind, node.inputs) for node in fragment.nodes])
        key = (wired, tuple(known.values()), scope.opset, id(scope.versions))
        if key not in self._run:
            self._run[key] = lacking_kernel(self._provider, nodes, known, scope.versions, among=self._among)
        return self._run[key]


def _refused(condition: Callable[..., Any], match: Match) -> str | None:
    """Why a condition does not let a match pass; None where it does."""
    try:
        call_with_captures(condition, match)
    except Refused as refusal:
        return str(refusal)
    return None


def _written(held: Any) -> Any:
    """What a name is bound to, but for which tensors these are."""
    if isinstance(held, str):
        return ""
    return len(held) if isinstance(held, Several) else repr(held)


def _is_plain(held: Any) -> bool:
    """Whether what a name is bound to is said in full by how it is written: not a dict of tensors, say."""
    if isinstance(held, tuple) and not isinstance(held, Several):
        return all(isinstance(item, PLAIN) for one in held for item in (one if isinstance(one, list) else (one,)))
    return True


def _refuse_at_any_opset(node: onnx.NodeProto, in_function: bool) -> None:
    """Raise RuleError for a node that is wrong whatever the model: the rule is to blame."""
    newest = schema(node.domain, node.op_type, None)
    complaints = check_node(node, newest.since_version if newest else 1, lambda _: None, in_function)
    if complaints:
        raise RuleError(f"What the rule writes breaks its schema: {complaints[0].rstrip('.')}; mend the rule.")


if TYPE_CHECKING:
    from surgeon.diagnosis.limits import Limits


KINDS: dict[str, Kind] = {"dtype": "dtype", "shape": "shape condition"}


class Declined(Exception):
    """A match may not be rewritten.

    finding: why; advice: what to do, for a sentence that has no room elsewhere.  is_of_form: another form of the rule
    might do.  fragment: what would be written, where the target does not run it and all else is well.
    """

    def __init__(
        self, finding: Finding, advice: str = "", *, is_of_form: bool = False, fragment: Fragment | None = None
    ) -> None:
        super().__init__(finding.sentence + advice)
        self.finding, self.is_of_form, self.fragment = finding, is_of_form, fragment


@dataclass(slots=True)
class Acceptance:
    """Accepts matches of one model by building their replacements; edits nothing.

    provider: the execution provider that must have kernels for what is written, None for any.
    """

    index: Index
    target: str
    workshop: Workshop
    splicer: Splicer
    provider: str | None = None
    limits: "Limits | None" = None

    @classmethod
    def over(cls, index: Index, target: str, ep: str | None = None, splicer: Splicer | None = None) -> "Acceptance":
        """One with a workshop of its own.  ep: the execution provider; None for the CPU's, where target is its own."""
        provider = provider_of(target, ep)
        limits = limits_for(target, provider, index)
        workshop = Workshop(index, provider, target_of(target).providers or None)
        return cls(index, target, workshop, splicer or Splicer(index), provider, limits)

    def runs(self, rule: Rule) -> bool:
        """Whether a rule is for the execution provider of this run, or for any."""
        return rule.ep in (None, self.provider)

    def replacement(self, rule: Rule, plan: Plan, compiled: Compiled, match: Match) -> Fragment:
        """What to write in place of a match: by the plan's form, else by the first other one that will do.

        What the target does not run is written only where its provider had no kernels for what is there.  Raises
        Declined where it must stay as it is, RuleError or RewriteError where the rule itself is wrong.
        """
        try:
            return self._written(rule, plan, compiled, match)
        except Declined as declined:
            fragments = [declined.fragment]
            for form in plan.others if declined.is_of_form else ():
                try:
                    return self._written(rule, replace(plan, form=form), compiled, match)
                except Declined as other:
                    fragments.append(other.fragment)
            best = next((fragment for fragment in fragments if fragment is not None), None)
            if best is None or self.provider is None or had_kernels(self.provider, match):
                raise
            return best  # nothing is lost: it could not run before either

    def _written(self, rule: Rule, plan: Plan, compiled: Compiled, match: Match) -> Fragment:
        """What the form of a plan writes in place of a match.  Raises as `replacement`."""
        match.asked_last = None
        step: Kind = "condition"
        fragment: Fragment | None = None
        is_of_form = False
        try:
            if not self.runs(rule):
                raise Declined(_finding("target", compiled, match, for_another(rule)))
            _require_dtype(rule, compiled, match)
            if rule.lacking and runs_already(self.target, self.provider, self.limits, match):
                raise Declined(_finding("target", compiled, match, f"{target_of(self.target).title} runs it as it is"))
            match.require_claims()
            for condition in rule.conditions:
                self.workshop.require(condition, compiled, match)
            if plan.needs is not None:
                raise self._too_old(match, plan.needs)
            is_of_form = True
            fragment = self.workshop.build(plan, compiled, match)
            step = "schema"
            lacking = self.workshop.require_valid(match, fragment)
            step = "target"
            self.splicer.require_writable(match, fragment)
        except OpsetError as error:
            needs = error.needs if match.scope.function is None else None
            change = f"raise the opset: surgeon upgrade IN OUT --opset {needs}" if needs else ""
            finding = _finding("opset", compiled, match, str(error).rstrip("."))
            finding = replace(finding, change=change, opset=needs or 0)
            raise Declined(finding, is_of_form=is_of_form) from error
        except Refused as refusal:
            if step == "schema" and fragment is not None and _is_about_dtypes(match, fragment):
                step = "dtype"
            raise Declined(_finding(step, compiled, match, str(refusal)), is_of_form=is_of_form) from refusal
        except RuleError as error:
            raise RuleError(f"Rule {rule.name} ({rule.where}): {error}") from error
        except (Declined, SurgeonError):
            raise
        except Exception as error:
            raise RewriteError(f"{broken(rule, error)} at node {match.root.label!r}; mend the rule.") from error
        if lacking is not None:
            raise self._no_kernel(rule, plan, match, lacking, fragment)
        beyond = None if self.limits is None else broken_limit(self.limits, match, fragment)
        if beyond is not None:
            raise self._beyond_limit(match, *beyond, fragment)
        return fragment

    def _beyond_limit(self, match: Match, reason: str, help_: str, fragment: Fragment) -> Declined:
        """The target does not take a node of what would be written."""
        where, wanted, at = match.pattern.where, f"a node that target {self.target} takes", match.root.label
        told = "; ".join(filter(None, (reason, help_)))
        return Declined(Finding("kernel", wanted, "", "", told, where=where, at=at), is_of_form=True, fragment=fragment)

    def _no_kernel(self, rule: Rule, plan: Plan, match: Match, lacking: NoKernel, fragment: Fragment) -> Declined:
        """The execution provider has no kernel for a node of what would be written."""
        raised = lacking.opset or (later_opset(self.provider, rule, plan, match) if self.provider else None)
        if raised is None or match.scope.function is not None:
            raised = 0
        change = f"raise the opset: surgeon upgrade IN OUT --opset {raised}" if raised else ""
        where, wanted, at = match.pattern.where, f"a kernel for {lacking.op}", match.root.label
        finding = Finding("kernel", wanted, "none", "", lacking.told, change, where, at=at, opset=raised)
        return Declined(finding, f"; or {change}" if change else "", is_of_form=True, fragment=fragment)

    def _too_old(self, match: Match, needs: int) -> Declined:
        scope = match.scope
        wants = f"the form for target {self.target} needs opset {needs}"
        if scope.function is not None:
            told, change = f"{wants} and {scope.function.label} has {scope.opset}, its own", ""
            advice, opset = "; export it at a newer one", 0
        else:
            upgrade = f"surgeon upgrade IN OUT --opset {needs}"
            told, change = f"{wants} and the model has {scope.opset}", f"raise the opset: {upgrade}"
            advice, opset = f"; raise it with: {upgrade}", needs
        found, at = f"opset {scope.opset}", match.root.label
        finding = Finding("opset", f"opset {needs}", found, "", told, change, match.pattern.where, "", at, opset)
        return Declined(finding, advice)


def for_another(rule: Rule) -> str:
    """Why a rule for another execution provider writes nothing."""
    return f"it is for the execution provider {rule.ep} alone"


def _finding(kind: Kind, compiled: Compiled, match: Match, why: str) -> Finding:
    """A refusal in fields.  What a condition looked at last is what it is about."""
    asked, found, at = match.asked_last, "", match.root.label
    if asked is not None and kind == "condition":
        kind = KINDS.get(asked[0], kind)
        at = match.tensor(asked[1])
        found = _type_text(match, at)
    return Finding(kind, why, found, f"for {at!r}" if found else "", why, where=compiled.pattern.where, at=at)


def _require_dtype(rule: Rule, compiled: Compiled, match: Match) -> None:
    """Raise Declined where the first output of a match is of a dtype that its rule is not for."""
    if not rule.dtypes or not match.outputs:
        return
    name = match.outputs[0]
    dtype = shapes_of(match.index).dtype(match.scope, name)
    found = "unknown" if dtype is None else dtype_name(dtype)
    if found not in rule.dtypes:
        wanted = " or ".join(rule.dtypes)
        told = f"it is for {wanted} alone, and the dtype of what it makes here is {found}"
        raise Declined(Finding("dtype", wanted, found, f"in {name!r}", told, where=compiled.pattern.where, at=name))


def _type_text(match: Match, name: str) -> str:
    """dtype and shape of a tensor: float[n, 4]."""
    dtype, shape = shapes_of(match.index).facts(match.scope, name)
    text = dtype_word(dtype) if dtype is not None else "unknown dtype"
    if shape is None:
        return f"{text}, rank unknown"
    return f"{text}[{', '.join(map(spelled, shape))}]"


def _is_about_dtypes(match: Match, fragment: Fragment) -> bool:
    """Whether a replacement would suit its schemas if nothing were known of dtypes."""
    scope = match.scope
    for node in fragment.as_protos():
        opset = scope.versions.get(node.domain) or import_version(node.domain, node.op_type)
        if check_node(node, opset, lambda _: None, scope.function is not None):
            return False
    return True
