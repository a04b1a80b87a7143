"""A comparison of two models as blocks: each output, and inner tensors, with the first one out of tolerance."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from surgeon.display.blocks import (
    Block,
    Document,
    Facts,
    Number,
    Section,
    Span,
    Table,
    Text,
    first_entries,
    lines_of,
    outcome,
    toned,
)
from surgeon.display.registry import file_name, reports
from surgeon.proof.check_result import CheckResult, LayerComparison
from surgeon.runtime.numerics.array_comparison import OutputError
from surgeon.text import and_more, format_beside_limit, format_count, of_the_limit, runs_text, seconds_text

if TYPE_CHECKING:
    from surgeon.runtime.numerics.tensor_judge import Deviation

MAX_DIFFERENT = 3  # outputs that differ in a summary: the worst, and whether others differ as much
NOT_COVERED = "values and sizes of no such kind, other devices, ONNX Runtime's own optimisations"


@reports(CheckResult, "comparison")
def document(result: CheckResult) -> Document:
    """A comparison of two models."""
    tolerance = ", ".join(f"{name} {number:.3g}" for name, number in result.tolerance.items())
    facts: list[tuple[Text, Text]] = [*comparison_rows(result), ("tolerance", tolerance)]
    details: list[Block] = [Section("outputs", list(comparison_tables(result))), Section("run", [Facts(facts)])]
    title = f"{result.original} beside {result.other}" if result.original and result.other else "A comparison"
    names = [file_name(path, "a model in memory") for path in (result.original, result.other)]
    if names[0] == names[1] and result.original != result.other:
        names = [result.original, result.other]
    runs = f"  {runs_text(result.runs, result.oracle)}" if result.outputs else ""
    return Document(title, details, summary=list(_summary(result)), headline=f"{' and '.join(names)}{runs}")


def _summary(result: CheckResult) -> Iterator[tuple[Text, Text]]:
    """Whether the outputs agree, which differ, and the limits of the answer."""
    outputs, reason = by_output(result.outputs), result.reason.rstrip(".")
    wrong = [error for error in outputs if not error.ok]
    words = f"{len(outputs) - len(wrong):,} of {format_count(len(outputs), 'output')} agree{'s' * (len(outputs) == 1)}"
    worst = max(outputs, key=lambda error: error.severity, default=None)
    if worst is not None and not wrong and worst.severity:
        words += f"; largest error {of_the_limit(worst.severity)} ({worst.name})"
    yield outcome(result.outcome.value), words if outputs else reason
    yield ("note" if result.proved else "why"), reason if outputs else ""
    shown, left = first_entries([_difference(error) for error in wrong], MAX_DIFFERENT)
    yield from lines_of("differs", [*shown, *([and_more(left, "outputs").lstrip()] if left else [])])
    yield "layers", layer_comparison_text(result.layers) if result.layers is not None else ""
    yield "note", f"holds only {assumption_clause(result.assumptions)}" if result.assumptions else ""


def _difference(error: OutputError) -> str:
    """An output that differs, with its error and its limit."""
    gap, allowed = format_beside_limit(error.max_abs, error.allowed)
    return f"{error.name} ({error.dtype}): error {gap}, limit {allowed}"


def comparison_rows(result: CheckResult) -> Iterator[tuple[str, Text]]:
    """The outcome of a comparison, and its inputs."""
    yield "layers", layer_comparison_text(result.layers) if result.layers is not None else ""
    words = under_assumptions(check_words(result), result.assumptions)
    yield "outcome", (outcome(result.outcome.value), f" {words}".rstrip())
    yield from lines_of("tried", inputs_text(result) if result.proved else ())
    yield "time", seconds_text(result.seconds)


def comparison_tables(result: CheckResult) -> Iterator[Table]:
    """The errors of the outputs, and of the worst inner tensors."""
    yield _errors_table(by_output(result.outputs), "output", "The worst error of each output")
    if result.layers is not None:
        yield _errors_table(result.layers.errors, "worst layers", "Inner tensors", result.layers.first_different)


def _errors_table(errors: Iterable[OutputError], what: str, caption: str, first: str = "") -> Table:
    """Errors and their tolerances, in order.  first: the first tensor out of tolerance."""
    rows = []
    for error in errors:
        gap, allowed = error_and_tolerance(error.max_abs, error.allowed, error.scale)
        relative = Number(f"{error.max_rel:.3g}", error.max_rel)
        numbers = Number(gap, error.max_abs), relative, Number(allowed, error.allowed)
        result = "" if error.ok else "differs, the first" if error.name == first else "differs"
        row = (Span(error.name, "code"), error.dtype, *numbers, result)
        rows.append(toned(row, "" if error.ok else "bad"))
    heads = (what, "dtype", "max abs", "max rel", "allowed", "")
    return Table(caption, heads, rows, more="none worse (--json has all)")


def check_words(check: CheckResult) -> str:
    """The runs of a comparison, and the reason if it failed or proved nothing."""
    runs = f"on {runs_text(check.runs, check.oracle)}" if check.outputs else ""
    return ": ".join(part for part in (runs, _as_clause(check.reason)) if part)


def under_assumptions(words: str, assumptions: Sequence[str]) -> str:
    """The words of an outcome, with the assumptions under which it holds."""
    parts = (words.rstrip("."), assumption_clause(assumptions))
    return ", ".join(part for part in parts if part.strip()) if assumptions else words


def assumption_clause(assumptions: Sequence[str]) -> str:
    """The assumptions under which something holds."""
    return f"under the assumption{'s' * (len(assumptions) > 1)} {'; '.join(assumptions)}"


def compared_text(check: CheckResult) -> str:
    runs = f"on {runs_text(check.runs, check.oracle)}" if check.outputs else ""
    found = " ".join(part for part in (check.outcome.value, runs) if part)
    return ": ".join(part for part in (found, _as_clause(check.reason).rstrip(".")) if part)


def _as_clause(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:]}" if sentence[1:2].islower() else sentence


def inputs_text(check: CheckResult) -> tuple[str, str]:
    """The kinds and sizes of the inputs of a comparison, and the limits of both."""
    return inputs_words(check.kinds, check.sizes) or "the inputs that were given", f"not covered: {NOT_COVERED}"


def inputs_words(kinds: Collection[str], sizes: Collection[str]) -> str:
    numbers = [int(number) for size in sizes for number in re.findall(r" (\d+)(?:,|$)", size)]
    count = f"{format_count(len(sizes), 'set')} of sizes"
    free = f"; {count} ({min(numbers)} to {max(numbers):,})" if numbers else ""
    return f"{', '.join(kinds)}{free}"


def deviation_text(found: "Deviation | OutputError", absolute: str = "") -> str:
    """A deviation in all measures.  absolute: the text of the first one, if three digits are not enough."""
    if not found.max_abs and not found.max_rel:
        return "0"
    ulp = getattr(found, "max_ulp", None)
    units = "" if ulp is None else f", {ulp:.3g} ULP"
    return f"{absolute or f'{found.max_abs:.3g}'} absolute, {found.max_rel:.3g} relative{units}"


def error_and_tolerance(gap: float, allowed: float, scale: float) -> tuple[str, str]:
    """An error, and its tolerance with the scale of the tensor."""
    if not allowed or not scale or not math.isfinite(allowed / scale):
        return format_beside_limit(gap, allowed)
    found, text = format_beside_limit(gap, allowed, (3, 2))
    return found, f"{text} ({allowed / scale:.2g} of {scale:.3g})"


def layer_comparison_text(layers: LayerComparison) -> str:
    """The result of comparing inner tensors, in one line."""
    if layers.left_out:
        return layers.left_out
    if not layers.compared:
        return "no inner tensor has the same name in both models"
    if layers.first_different:
        return f"the first tensor outside the tolerance is '{layers.first_different}' ({layers.compared:,} compared)"
    return f"{format_count(layers.compared, 'tensor')} of the same name compared, none leaves tolerance"


def by_output(errors: Sequence[OutputError]) -> list[OutputError]:
    """The worst error of each output, those that differ first.

    A sequence or a map is compared part by part, starting with its length or keys: `len(p)`, `keys(p[0])`, `p[0][cat]`.
    Here it is one row with the worst part: a classifier may return a map of probabilities for each picture.
    """
    containers = [error.name.partition("(")[2][:-1] for error in errors if error.name.startswith(("len(", "keys("))]
    outermost = [name for name in containers if not any(name.startswith(f"{other}[") for other in containers)]
    found: dict[str, list[OutputError]] = {}
    for error in errors:
        top = next((name for name in outermost if _is_part_of(error.name, name)), error.name)
        found.setdefault(top, []).append(error)
    worst = {top: max(parts, key=_badness) for top, parts in found.items()}
    rows = [
        replace(error, name=f"{top} ({len(found[top]):,} parts; worst {error.name})") if top in outermost else error
        for top, error in worst.items()
    ]
    return sorted(rows, key=_badness, reverse=True)


def _is_part_of(name: str, top: str) -> bool:
    """Whether a row is a part of an output that is a sequence or a map."""
    inner = name.partition("(")[2][:-1] if name.startswith(("len(", "keys(")) else name
    return inner == top or inner.startswith(f"{top}[")


def _badness(error: OutputError) -> tuple[bool, float]:
    return not error.ok, error.severity
