"""The HTML of comparisons, and of target checks."""

from collections.abc import Iterable, Iterator

from surgeon.display.content.check import cause_lines, group_by_cause, runtime_lines, summary_line
from surgeon.display.content.comparison import by_output
from surgeon.display.content.rewrite import error_and_tolerance, inputs_text, layer_comparison_text
from surgeon.display.html.elements import (
    Cell,
    HtmlContent,
    Markup,
    RenderContext,
    code,
    concat,
    element,
    fields,
    outcome_note,
    section,
    table,
)
from surgeon.display.registry import register_view
from surgeon.proof.check_result import CheckResult
from surgeon.runtime.numerics.array_comparison import OutputError
from surgeon.target_registry import target_of
from surgeon.targets.lint.finding import Findings
from surgeon.text import runs_text, seconds_text


@register_view(CheckResult, "comparison", lambda _: "A comparison")
def comparison_body(result: CheckResult, _: RenderContext) -> Markup:
    """A comparison of two models: each output, and inner tensors, with the first one out of tolerance."""
    layers = result.layers
    parts = [
        outcome_note(result.outcome.value, result.reason),
        errors_table(by_output(result.outputs), "output", "The worst error of each output"),
        fields(_facts(result)),
    ]
    if layers is not None:
        first = layers.first_different
        inner = (
            element("p", layer_comparison_text(layers)),
            errors_table(layers.errors, "layer", "Inner tensors", first),
        )
        parts.append(section("Layers", inner))
    return concat(parts)


def errors_table(errors: Iterable[OutputError], what: str, caption: str, first: str = "") -> Markup:
    """A table of errors and their tolerances, in order.  first: the first tensor out of tolerance."""
    rows = []
    for error in errors:
        word = "equal within tolerance" if error.ok else "differs"
        result = element("b", f"{word}, the first") if error.name == first else word
        gap, allowed = error_and_tolerance(error.max_abs, error.allowed, error.scale)
        numbers = Cell(gap, error.max_abs), _number(error.max_rel), Cell(allowed, error.allowed)
        rows.append((code(error.name), error.dtype, *numbers, result))
    return table((what, "dtype", "max abs", "max rel", "allowed", "verdict"), rows, caption)


def _number(value: float) -> Cell:
    return Cell(f"{value:.3g}", value)


def _facts(result: CheckResult) -> Iterator[tuple[str, HtmlContent]]:
    if result.outputs:
        yield "ran", runs_text(result.runs, result.oracle)
    for place, words in enumerate(inputs_text(result) if result.proved else ()):
        yield "" if place else "tried", words
    yield "tolerance", ", ".join(f"{name} {number:.3g}" for name, number in result.tolerance.items())
    yield "time", seconds_text(result.seconds)


@register_view(Findings, "check", lambda _: "What keeps a model from running")
def findings_body(found: Findings, _: RenderContext) -> Markup:
    """The findings of a target check, one cause per row."""
    target = target_of(found.target).title
    rows = []
    for items in group_by_cause(found):
        title, *lines = cause_lines(items)
        count = sum(item.count for item in items)
        description = [element("b", title), *(element("div", line.strip()) for line in lines)]
        rows.append(("stops" if items[0].stops else "advice", items[0].kind, count, description))
    words, is_good = summary_line(found, found.runtime, target)
    runtime_text = runtime_lines(found.runtime, target) if found.runtime is not None else ()
    return concat((
        outcome_note("fine" if is_good else "failed", words),
        table(("weight", "about", "nodes", "what is wrong, and what helps"), rows, "What stands against the target"),
        [element("p", line) for line in runtime_text],
    ))
