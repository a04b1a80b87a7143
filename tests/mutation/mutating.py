"""A rule whose replacement is changed at one place of a model, and what becomes of that place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import onnx

import surgeon
from surgeon import Rule
from surgeon.errors import CheckFailed, SurgeonError
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.reports.site import Site
from surgeon.rules.matching.match import Match
from surgeon.rules.rule import ReplacementForm
from tests.mutation.canvas import Canvas

Function = Callable[..., Any]
Visit = Callable[[str, int, Canvas], None]


@dataclass(frozen=True)
class Subject:
    """A model and the rules that run over it.  source: where it comes from, for people."""

    name: str
    source: str
    model: onnx.ModelProto
    rules: tuple[Rule, ...]
    target: str = "ort"
    ep: str | None = None


@dataclass(frozen=True)
class Spot:
    """One replacement of one rule in a subject.

    scope, root: where.  form: which of the rule's forms wrote it.  text: what it wrote, see `Canvas.text`.
    """

    rule: str
    scope: str
    root: str
    form: int
    text: str = ""

    @property
    def place(self) -> tuple[str, str, str, int]:
        """What tells it from others of the subject."""
        return self.rule, self.scope, self.root, self.form


@dataclass(frozen=True)
class Verdict:
    """What became of the place: "failed", "unproved", "proved", or "refused" where nothing was written."""

    outcome: str
    reason: str = ""
    model: onnx.ModelProto | None = None


class Watched(Rule):
    """A rule whose replacements are seen, and may be changed, before they are written; its meaning stays."""

    original: Rule

    @property
    def reference(self) -> Function:
        """What the operation means, whatever is done to what it writes."""
        return self.original.reference


def watched(rule: Rule, visit: Visit) -> Rule:
    """A copy of a rule that shows each replacement, with the rule's name and the form's place, before it is frozen."""
    values = {name: getattr(rule, name) for name in Rule.__dataclass_fields__ if name != "forms"}
    forms = [replace(form, function=_shown(form, at, rule.name, visit)) for at, form in enumerate(rule._all_forms())]
    made = Watched(**values, forms=forms)
    made.original = rule
    return made


def _shown(form: ReplacementForm, at: int, rule: str, visit: Visit) -> Function:
    function = form.function

    @wraps(function)
    def replacement(g: Any, *args: Any, **kwargs: Any) -> Any:
        returned = function(g, *args, **kwargs)
        match: Match | None = getattr(g, "matched", None)
        if match is None or returned is None:  # traced as a pattern
            return returned
        several = isinstance(returned, (list, tuple))
        canvas = Canvas(g, match, list(returned) if several else [returned])
        visit(rule, at, canvas)
        return canvas.results if several else canvas.results[0]

    assert inspect.signature(replacement) == inspect.signature(function)
    return replacement


def spots(subject: Subject) -> list[Spot]:
    """The replacements written in a subject, in order; of equal ones in a rule the first."""
    seen: dict[tuple[str, str, str], Spot] = {}

    def visit(rule: str, form: int, canvas: Canvas) -> None:
        scope, root = place_of(canvas.match)
        seen[rule, scope, root] = Spot(rule, scope, root, form, canvas.text)

    report = _run(subject, [watched(rule, visit) for rule in subject.rules], check="none")[1]
    steps = [step for site in report.sites for step in site.steps]
    written = [(step.rule, step.scope.label, step.root.label) for step in steps]
    found = [seen[place] for place in dict.fromkeys(written) if place in seen]
    return list({(spot.rule, spot.form, spot.text): spot for spot in reversed(found)}.values())[::-1]


def place_of(match: Match) -> tuple[str, str]:
    """The scope and the node at which a match is written, as long as it is not."""
    return match.scope.label, match.root.label


def seen_at(subject: Subject, spot: Spot, look: Callable[[Canvas], None]) -> None:
    """Show the replacement at a spot, before it is frozen."""

    def visit(rule: str, form: int, canvas: Canvas) -> None:
        if (rule, *place_of(canvas.match), form) == spot.place:
            look(canvas)

    _run(subject, [watched(rule, visit) if rule.name == spot.rule else rule for rule in subject.rules], check="none")


def baseline(subject: Subject) -> Verdict:
    """What the rules make of a subject unchanged: the worst outcome of its sites, and the model."""
    made, report = _run(subject, subject.rules, check="sites")
    why = [site.reason for site in report.rolled_back] or report.doubts
    return Verdict(report.outcome, "; ".join(why), made)


def verdict(subject: Subject, spot: Spot, change: Callable[[Canvas], None]) -> Verdict:
    """What becomes of a spot whose replacement is changed."""
    shown: list[int] = []  # the forms, in the order in which they were built there

    def visit(rule: str, form: int, canvas: Canvas) -> None:
        if (rule, *place_of(canvas.match)) == spot.place[:3]:
            shown.append(form)  # before: what no helper makes at the opset is refused there
            if form == spot.form:
                change(canvas)

    rules = [watched(rule, visit) if rule.name == spot.rule else rule for rule in subject.rules]
    try:
        made, report = _run(subject, rules, check="sites")
    except CheckFailed as error:
        return Verdict("refused", str(error))
    except SurgeonError as error:
        return Verdict("refused", f"{type(error).__name__}: {error}")
    assert spot.form in shown, f"nothing was changed at {spot.place}"
    sites = [site for site in (*report.sites, *report.rolled_back) if _is_of(site, spot)]
    if not sites:
        why = [miss.reason for miss in report.misses if miss.rule == spot.rule]
        return Verdict("refused", why[0] if why else "nothing is written there")
    if shown[-1] != spot.form and sum(_is_at(step, spot) for step in sites[0].steps) == 1:
        return Verdict("refused", "another form of the rule is written there")
    site = sites[0]
    return Verdict(site.outcome, site.reason, made)


def _is_of(site: Site, spot: Spot) -> bool:
    return any(_is_at(step, spot) for step in site.steps)


def _is_at(step: Any, spot: Spot) -> bool:
    return (step.rule, step.scope.label, step.root.label) == spot.place[:3]


def _run(subject: Subject, rules: Sequence[Rule], *, check: Any) -> tuple[Any, RewriteReport]:
    found: tuple[Any, RewriteReport] = surgeon.rewrite(
        subject.model, rules, target=subject.target, ep=subject.ep, check=check, keep_going=True
    )
    return found
