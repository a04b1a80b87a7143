"""A rule: an operation, the patterns that match it, and the form for each target.

    @rule(patterns=[exact])
    def gelu(g: Graph, x: Tensor) -> Tensor:
        "Fuse the exact GELU into one node."
        return g.ms_gelu(x)

    @gelu.on("onnx", opset=20)
    def _(g: Graph, x: Tensor) -> Tensor:
        return g.gelu(x)

Every form is itself a pattern, so the same rule moves a model from any form to any other.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from surgeon.entry_points import OWN_RULES
from surgeon.errors import ConditionFailed, RuleError, SurgeonError, Unavailable
from surgeon.result_base import ResultBase
from surgeon.rules.argument_checks import (
    dtype_names,
    require_functions,
    require_name_target_opset,
    require_pattern_or_search,
)
from surgeon.rules.definition_checks import describe_tracing_error, is_reversible, require_consistent, required_captures
from surgeon.rules.matching.compiler import CompiledPattern, compile_pattern, compile_search
from surgeon.rules.matching.pattern import Pattern, Search
from surgeon.rules.tracing.tracer import trace
from surgeon.target_registry import ANY_KIND, DECOMPOSED, names, takers, target_of, targets
from surgeon.text import close_matches, suggest_name

RuleFunction = Callable[..., Any]
# Kinds of inputs for which an exact rule may differ: non-finite values, and indices that count from the end, which the
# op of its result refuses.
KNOWN = ("ort", "onnx")  # kinds of form whose ops have schemas
NON_FINITE, BACKWARDS = "non_finite", "backwards"


@dataclass(frozen=True, slots=True)
class ReplacementForm:
    """How one kind of target writes an operation."""

    kind: str
    """Kind of target that runs it, such as "ort" or "tensorrt"."""
    function: RuleFunction
    """Function that builds it on a graph."""
    opset: int = 1
    """First version of ai.onnx that can express it."""
    patterns: tuple[RuleFunction, ...] | None = None
    """Patterns that recognise its result; None: the function itself, if it is a pattern (see `Rule.recognised`)."""
    conditions: tuple[RuleFunction, ...] | None = None
    """Conditions of a match in place of the rule's; None: the rule's."""


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The plan of a rule for a target at an opset: the patterns to match and the form to write."""

    sources: tuple[CompiledPattern, ...]
    """Compiled patterns to look for."""
    form: ReplacementForm
    """Form to write."""
    needs: int | None
    """Version of ai.onnx that the form needs, if the model's is older; else None."""
    others: tuple[ReplacementForm, ...] = ()
    """Forms to write if `form` does not fit, best first."""
    newer: tuple[ReplacementForm, ...] = ()
    """Forms that need a newer opset, oldest first."""
    lacking: bool = False
    """Whether it applies only to nodes that the target does not run."""
    conditions: tuple[RuleFunction, ...] = ()
    """Conditions of a match."""


@dataclass(eq=False)
class Rule(ResultBase):
    """One operation.  Made by the `rule` decorator, whose settings are its fields.

    Examples:
        >>> from surgeon.patterns.activations.gelu import gelu
        >>> gelu.name, gelu.is_exact, [form.kind for form in gelu.forms]
        ('gelu', True, ['ort', 'onnx'])
    """

    name: str
    """Its name."""
    patterns: tuple[RuleFunction, ...]
    """The patterns to match; the first defines the operation."""
    forms: list[ReplacementForm]
    """The replacements, for each kind of target."""
    conditions: tuple[RuleFunction, ...]
    """Further requirements of a match."""
    approximate: float
    """How far it may change outputs on purpose; 0: only by rounding."""
    doc: str
    """Its docstring, which is its manual."""
    module: str
    """The Python module that defines it."""
    where: str
    """file:line of its definition."""
    search: Search | None = None
    """Finds its sites, for a rule that no pattern can express."""
    differs: Mapping[str, str] = field(default_factory=dict)
    """Kinds of inputs for which it changes outputs on purpose, and how."""
    ep: str | None = None
    """The only execution provider on which groups use it, because it is faster there; None: on all."""
    unsuited: Mapping[str, str] = field(default_factory=dict)
    """Targets that run a kind of form that it has, but must not get this one, and why."""
    dtypes: tuple[str, ...] = ()
    """Names of the dtypes that the first output of a match may have; empty: all."""
    lacking: bool = False
    """Whether it applies only to nodes that the target does not run."""
    mixed: bool = False
    """Whether it applies to nodes of several float dtypes that ONNX refuses."""
    last: bool = False
    """Whether it runs after all other rules."""
    once: bool = False
    """Whether it runs once, at its position in the order; if its site fails, the rules after it run without it."""
    unfinished: Callable[[str], bool] | None = None
    """Whether an op that it writes must be replaced by a rule after it, since no runtime has it; None: no op is."""
    placeholder: str = ""
    """The op that it must rewrite, else the run is refused; "" if there is none."""
    _compiled: dict[RuleFunction, tuple[CompiledPattern, ...]] = field(default_factory=dict, repr=False)
    _traceable: dict[RuleFunction, bool] = field(default_factory=dict, repr=False)

    def on(
        self,
        kind: str,
        *,
        opset: int = 1,
        patterns: Sequence[RuleFunction] | None = None,
        conditions: Sequence[RuleFunction] | None = None,
    ) -> Callable[[RuleFunction], RuleFunction]:
        """Add the form for another kind of target ("ort", "onnx", "tensorrt"); several of one kind may differ by opset.

        A kind of a target that is not installed is allowed; it stays unused.
        patterns: recognise the result of the function, to replace it by another form; they bind what the other forms
        require.  By default the function itself is the pattern, unless it reads shapes, dtypes or values.  []: the
        result is not recognised, since it looks like any other node.
        conditions: conditions of a match for this form, in place of the rule's; [] for a node that is decomposed
        whatever its shapes.
        """
        given = [None if functions is None else tuple(functions) for functions in (patterns, conditions)]

        def add(function: RuleFunction) -> RuleFunction:
            self.forms.append(ReplacementForm(kind, function, opset, *given))
            return function

        return add

    def recognised(self, form: ReplacementForm) -> tuple[RuleFunction, ...]:
        """The patterns that recognise a form's result: given ones, else the form itself if it can be traced.

        A form that does not bind what conditions and other forms require is not a pattern, nor is a decomposed one.
        """
        if form.kind == ANY_KIND or self.search is not None:
            return ()
        if form.kind == DECOMPOSED and form.patterns is None:
            return ()  # the rule's patterns are decomposed themselves
        return self._patterns_of(form.function) if form.patterns is None else form.patterns

    def require_sense(self) -> None:
        """Raise RuleError if the rule cannot work on any model."""
        if self.search is None:
            forms: dict[RuleFunction, tuple[Pattern, ...]] = {}
            for form in self.forms:
                sources = [] if form.kind == DECOMPOSED else list(self.patterns)
                for other in self.forms:
                    sources += (other.patterns or ()) if form.function is not other.function else ()
                found = [item.pattern for function in sources for item in self.compiled(function)]
                forms[form.function] = tuple(dict.fromkeys([*forms.get(form.function, ()), *found]))
            conditions = {form.function: self.conditions_of(form) for form in self.forms}
            try:
                require_consistent(f"Rule {self.name} ({self.where})", forms, conditions)
            except NameError as error:
                raise RuleError(describe_rule_error(self, error, "in its replacement")) from error

    def _patterns_of(self, function: RuleFunction) -> tuple[RuleFunction, ...]:
        if function not in self._traceable:
            wanted = required_captures(self.conditions, (form.function for form in self.forms))
            self._traceable[function] = is_reversible(function, self.reference, wanted)
        return (function,) if self._traceable[function] else ()

    def plan(self, target: str, opset: int | None) -> RulePlan | Unavailable:
        """The plan for a target, or why the rule has none."""
        wanted = target_of(target)
        if target in self.unsuited:
            return Unavailable(f"rule {self.name} is not for target {target}: {self.unsuited[target]}")
        is_tidying = self.search is not None or all(form.kind == ANY_KIND for form in self.forms)
        if target == DECOMPOSED and is_tidying and not self.lacking:
            return Unavailable(f"rule {self.name} writes no op that surgeon can decompose")
        kinds = (*wanted.writes, ANY_KIND) if self.lacking else wanted.writes
        usable = [form for kind in dict.fromkeys(kinds) for form in self._all_forms() if form.kind == kind]
        if not usable:
            sources = tuple(item for function in self.lowered(wanted.runs) for item in self.compiled(function))
            if sources and self.in_parts in self.forms:  # a plain pattern may use ops of one runtime
                return RulePlan(
                    sources, self.in_parts, None, lacking=True, conditions=self.conditions_of(self.in_parts)
                )
            return Unavailable(f"rule {self.name} has no form for target {target}{self._kinds_clause()}")
        fitting = [form for form in usable if form.opset <= (opset or 1)]
        form, *others = _ranked(fitting, kinds) or [min(usable, key=lambda item: item.opset)]
        functions = [] if DECOMPOSED in wanted.runs and not self.lacking else list(self.patterns)
        runs = {
            function
            for other in self.forms
            if other.kind in wanted.runs
            for function in ((other.function,) if other.patterns is None else other.patterns)
        }
        recognised = [other for other in self.forms if other.kind not in wanted.runs and other.function not in runs]
        functions += [pattern for other in recognised for pattern in self.recognised(other) if pattern not in runs]
        sources = tuple(compiled for function in dict.fromkeys(functions) for compiled in self.compiled(function))
        if self.search is not None:
            sources = (self._searched,)
        if not sources:
            return Unavailable(f"rule {self.name} writes nodes that are not specific to it, so none can be decomposed")
        newer = sorted((other for other in usable if other not in fitting), key=lambda item: item.opset)
        conditions = self.conditions_of(form)
        needs = None if fitting else form.opset
        return RulePlan(
            sources, form, needs, others=tuple(others), newer=tuple(newer), lacking=self.lacking, conditions=conditions
        )

    def lowered(self, runs: Sequence[str] = ()) -> tuple[RuleFunction, ...]:
        """The patterns that recognise its forms, for targets that run none of them and get the decomposed form.

        runs: the kinds of form that the target leaves unchanged.  Empty if the rule has no decomposed form.  Forms
        without schemas are left out, since it is unknown whether a target lacks their ops.
        """
        if self.search is not None or not any(form.kind == DECOMPOSED for form in self._all_forms()):
            return ()
        theirs = [form for form in self.forms if form.kind in KNOWN and form.kind not in runs]
        return tuple(dict.fromkeys(pattern for form in theirs for pattern in self.recognised(form)))

    def limited(self, most: int) -> "Rule":
        """The same rule with another limit of the results that it folds, in bytes; itself if it folds nothing."""
        limited = None if self.search is None else self.search.limited
        return self if limited is None else replace(self, search=limited(most))

    def conditions_of(self, form: ReplacementForm) -> tuple[RuleFunction, ...]:
        """The conditions of a match for a form."""
        return self.conditions if form.conditions is None else form.conditions

    @property
    def in_parts(self) -> ReplacementForm:
        """The decomposed form."""
        return next(form for form in self._all_forms() if form.kind == DECOMPOSED)

    def compiled(self, function: RuleFunction) -> tuple[CompiledPattern, ...]:
        """A pattern function, traced and compiled once."""
        if function not in self._compiled:
            try:
                self._compiled[function] = tuple(compile_pattern(pattern) for pattern in trace(function))
            except RuleError as error:
                error.args = (describe_tracing_error(f"Rule {self.name}", function, error),)
                raise
            except SurgeonError:
                raise
            except ConditionFailed as refused:
                who = f"Rule {self.name} ({self.where}): pattern {function.__name__}"
                raise RuleError(f"{who} rejects every match ({refused}). Call require in a condition.") from refused
            except Exception as error:
                raise RuleError(describe_rule_error(self, error)) from error
        return self._compiled[function]

    @cached_property
    def _searched(self) -> CompiledPattern:
        """The search, in place of a pattern."""
        if self.search is None:
            raise RuleError(f"Rule {self.name} ({self.where}) has no search.")
        return compile_search(self.search)

    @property
    def targets(self) -> list[str]:
        """Names of the targets, without those that are equal to another for this rule."""
        kinds = {form.kind for form in self.forms} | self.unsuited.keys()
        return [target.name for target in targets() if not target.like or target.writes[0] in kinds]

    @property
    def is_exact(self) -> bool:
        """Whether the rule changes finite numbers only by rounding."""
        return not self.approximate and not set(self.differs) - {NON_FINITE, BACKWARDS}

    @property
    def is_built_in(self) -> bool:
        """Whether it comes with surgeon."""
        return self.module.startswith(f"{OWN_RULES}.")

    @property
    def is_cleanup(self) -> bool:
        """Whether it belongs to a family of helpers: their package says `CLEANUP = True`."""
        return bool(getattr(sys.modules.get(self.module.rpartition(".")[0]), "CLEANUP", False))

    @property
    def reference(self) -> RuleFunction:
        """The definition of the operation: the decomposed form, by default the first pattern."""
        return next((form.function for form in self.forms if form.kind == DECOMPOSED), self.patterns[0])

    def _kinds_clause(self) -> str:
        """The kinds of the rule's forms, as a clause: first one that no installed target runs, perhaps misspelt."""
        unknown = next((form.kind for form in self.forms if not any(takers(form.kind))), "")
        near = "".join(f" (did you mean {name!r}?)" for name in close_matches(unknown, names(), 1))
        if unknown:
            return f"; it has one for {unknown!r}, but no installed target has that name{near}"
        kinds = dict.fromkeys(form.kind for form in self.forms if form.kind != DECOMPOSED)
        return f"; it has one for {' and '.join(kinds)}" if kinds else ""

    def _all_forms(self) -> list[ReplacementForm]:
        if not self.patterns or self.lacking or any(form.kind == DECOMPOSED for form in self.forms):
            return self.forms
        return [*self.forms, ReplacementForm(DECOMPOSED, self.reference, patterns=(self.reference,))]

    def __repr__(self) -> str:
        return f"<rule {self.name} ({self.where})>"


def describe_rule_error(rule: "Rule", error: Exception, when: str = "") -> str:
    """The exception of a rule's own code with its last line in the rule's file.  when: empty for one in its pattern."""
    lead = f"Rule {rule.name} raised an error {when}:" if when else f"The pattern of rule {rule.name} raised"
    return f"{lead} {error_with_line(rule, error)}"


def error_with_line(rule: "Rule", error: Exception) -> str:
    """The kind of an exception of a rule's own code, its text, and its last line in the rule's file."""
    import traceback  # not at the top: only errors need it

    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).name == rule.where.partition(":")[0]]
    at, message = (own or frames)[-1], f"{error}{suggest_name(error)}"
    if isinstance(error, RecursionError):
        message = "operations nest too deeply for Python's stack; split the pattern"
    return f"{type(error).__name__}: {message} ({Path(at.filename).name}:{at.lineno})"


def _ranked(forms: Sequence[ReplacementForm], kinds: Sequence[str]) -> list[ReplacementForm]:
    return sorted(forms, key=lambda form: (kinds.index(form.kind), -form.opset))


def rule(
    *,
    patterns: Sequence[RuleFunction] = (),
    search: Search | None = None,
    conditions: Sequence[RuleFunction] = (),
    target: str | Mapping[str, int] = "ort",
    opset: int = 1,
    name: str | None = None,
    approximate: float = 0.0,
    differs: Mapping[str, str] | None = None,
    ep: str | None = None,
    unsuited: Mapping[str, str] | None = None,
    dtypes: str | Sequence[str] = (),
    form_patterns: Sequence[RuleFunction] | None = None,
    lacking: bool = False,
    mixed: bool = False,
    last: bool = False,
) -> Callable[[RuleFunction], Rule]:
    """Make a rule of the decorated replacement.

    Args:
        patterns: functions that build the subgraph to match; the first defines the operation.
        search: finds the sites instead of patterns (see `surgeon.searches`); the conditions and the replacement have
            its bindings as parameters.
        conditions: functions of captured tensors (by name, or of the whole `match`) that call `require`.
        target: the kind of form that the decorated function writes.  One function may write for several kinds: {"onnx":
            17, "ort": 1} names the opset of each.  "any": the result suits every target, and cannot be reversed.
        opset: the first version of ai.onnx that has the ops of the form.
        name: the name of the rule; the function's name by default.
        approximate: how far the rule may change outputs on purpose: by this number, and by this share of their largest
            magnitude (0: rounding only).  Such a rule runs only if the user names it or allows approximate rules.
        differs: the kinds of inputs for which the rule changes outputs on purpose, and how: {"zeros": "a row of zeros
            gives 0, but the division gives NaN"}.  A proof leaves these inputs out
            (`input_spec.Values` defines them: zeros, denormals, extreme, magnitudes, non_finite,
            constant_rows, offset, small; holes and hidden_rows of masks; indices that count backwards).  Such a rule
            runs as an approximate one, unless it differs only for non_finite inputs, or for indices that count
            backwards from the end of a table.
        ep: the only execution provider on which groups use the rule, because it is faster there: "cpu", "cuda", ...
            Whoever names the rule gets it on any.
        unsuited: targets that accept a kind of form that the rule has, but not this one, and why: {"tensorrt": "it
            takes four axes only"}.
        dtypes: allowed dtypes of the first output of a match: "floats" (float16, bfloat16, float32 and float64), the
            name of a dtype, or several names; any other or unknown dtype is refused.  All by default.
        form_patterns: patterns that recognise the result of the decorated function, as `patterns` of `Rule.on`.
        lacking: fire only if the target does not run the matched nodes: it has no kernel for one, or rejects it.
        mixed: also match nodes of several float dtypes that ONNX refuses, in order to fix them.
        last: fire only once no other rule finds anything, for example if other rules cannot match the result.

    Returns:
        A decorator that returns a Rule.  A form, or an unsuited target, that is not installed is ignored.

    Raises:
        RuleError: there is neither a pattern nor a search, or both; `approximate` is not a share; `differs` or `dtypes`
            has an unknown name.

    Examples:
        >>> from surgeon import rule
        >>> @rule(patterns=[lambda g, x: g.mul(x, x)], target="any")
        ... def squared(g, x):
        ...     return g.pow(x, 2.0)
        >>> squared.name
        'squared'
    """

    def decorate(function: RuleFunction) -> Rule:
        code = function.__code__
        where = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
        title = function.__name__ if name is None else name
        who = f"Rule {title} ({where})"
        require_functions(who, patterns, conditions)
        require_name_target_opset(who, title, target, opset)
        require_pattern_or_search(who, patterns, search, approximate=approximate, differs=differs or {})
        made = Rule(
            title,
            tuple(patterns),
            [],
            conditions=tuple(conditions),
            approximate=approximate,
            doc=inspect.getdoc(function) or "",
            module=function.__module__ or "",
            where=where,
            search=search,
            differs=dict(differs or {}),
            ep=ep,
            unsuited=dict(unsuited or {}),
            dtypes=dtype_names(dtypes),
            lacking=lacking,
            mixed=mixed,
            last=last or (search is not None and search.last),
        )
        for kind, since in {target: opset}.items() if isinstance(target, str) else target.items():
            made.on(kind, opset=since, patterns=form_patterns)(function)
        return made

    return decorate
