"""The result of the gate as blocks: a line per regression, the other changes, and the facts of each model."""

from collections.abc import Iterable, Iterator, Mapping

from surgeon.automation.gate.baseline_file import BASELINE
from surgeon.automation.gate.gate_result import GateResult
from surgeon.automation.gate.model_comparison import Difference
from surgeon.automation.gate.model_facts import ModelFacts
from surgeon.display.blocks import Document, Section, Span, Table, Text, outcome
from surgeon.display.registry import reports
from surgeon.printed_commands import command, placed
from surgeon.rules.catalogue import default_group
from surgeon.text import and_more, format_count

SHOWN, FEW = 40, 3  # models without a baseline; models that a command names


@reports(GateResult, "gate")
def document(found: GateResult) -> Document:
    """All differences from the baseline."""
    regressions = found.regressions
    others = [one for one in found.differences if not one.is_regression]
    details = [
        Section("regressions", [_table("Regressions since the baseline", regressions)]),
        Section("other changes", [_table("Other changes since the baseline", others)]),
        Section("models", [_facts(found.models)]),
    ]
    headline = f"{format_count(len(found.models), 'model')}; target: {found.settings['target']}"
    return Document(f"Gate against {found.baseline}", details, list(_summary(found, others)), headline=headline)


def _summary(found: GateResult, others: list[Difference]) -> Iterator[tuple[Text, Text]]:
    """A line per regression, and the outcome."""
    if not found.has_baseline:
        rows = list(found.models.items())
        yield from ((Span(name, "code"), _line(facts)) for name, facts in rows[:SHOWN])
        yield "", and_more(len(rows) - SHOWN, "models (-v shows all)").lstrip()
    for one in found.regressions:
        rule = one.rule
        tone = "bad" if rule is not None and found.stops(rule) else "warning"
        name = "" if rule is None else rule.title
        yield Span(name, tone), (Span(one.model, "code"), f": {one.text}")
    if others:
        yield "other", (format_count(len(others), "harmless change"), Span("; details: -v", "shell"))
    regressed = len(found.regressions)
    if found.updated:
        yield "wrote", Span(found.baseline, "code")
    elif not found.has_baseline:
        yield "baseline", (f"{found.baseline} does not exist. Write it: ", Span(_update(found), "code"))
    elif regressed:
        yield outcome("failed") if not found.ok else Span("WARNING", "warning"), (
            f"{format_count(regressed, 'regression')} since {found.baseline}"
        )
    else:
        yield Span("OK", "outcome proved"), f"no regressions since {found.baseline}"


def _update(found: GateResult) -> str:
    """The command that writes the baseline."""
    models = list(found.sources.values()) if len(found.sources) <= FEW else ["MODELS"]
    target, settings = str(found.settings["target"]), found.settings
    options = list(placed(target, settings["ep"]))
    options += ["--rules", settings["rules"]] if settings["rules"] != default_group(target) else []
    options += ["--check", settings["check"]] if settings["check"] != "auto" else []
    options += ["--baseline", found.baseline] if found.baseline != BASELINE else []
    return command("gate", *models, *options, "--update")


def _line(facts: ModelFacts) -> str:
    """The facts about a model in a line."""
    fused = facts.families_text
    lacks = f"; the target cannot run {', '.join(facts.unsupported)}" if facts.unsupported else ""
    return f"{facts.outcome}, {format_count(facts.nodes, 'node')}{'; ' * bool(fused)}{fused}{lacks}"


def _table(caption: str, found: Iterable[Difference]) -> Table:
    rows = [
        ("" if one.rule is None else one.rule.title, Span(one.model, "code"), one.what, one.cause)
        for one in found
    ]
    return Table(caption, ("rule", "model", "what", "cause"), rows)


def _facts(models: Mapping[str, ModelFacts]) -> Table:
    rows = [(Span(name, "code"), _line(facts)) for name, facts in models.items()]
    return Table("Facts about each model", ("model", "facts"), rows)
