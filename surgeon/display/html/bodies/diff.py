"""What is shown of how two models differ."""

from pathlib import Path

from surgeon.display.content.diff import nothing_words, same_words
from surgeon.display.diff.model_diff import ModelChange, ModelDiff
from surgeon.display.html.elements import (
    Content,
    Markup,
    Paper,
    code,
    element,
    facts,
    fold,
    joined,
    listed,
    section,
    table,
)
from surgeon.display.registry import shows
from surgeon.number_text import seconds_text
from surgeon.text import first_of

FEW = 200  # sites that are listed


def _title(found: ModelDiff) -> str:
    return " and ".join(Path(path).name or "a model" for path in (found.first, found.second))


@shows(ModelDiff, "diff", _title)
def of_diff(found: ModelDiff, _: Paper) -> Markup:
    """What differs, equal changes once, each unfolding to its sites."""
    head: list[tuple[str, Content]] = [
        ("first", code(found.first) if found.first else "a model in memory"),
        ("second", code(found.second) if found.second else "a model in memory"),
        ("same", same_words(found)),
        ("time", seconds_text(found.seconds)),
    ]
    rows = [(change.kind, change.count, code(change.what), change.scope or "main graph") for change in found.changes]
    sites = [_of_change(change) for change in found.changes if change.sites]
    same = "" if found.differs else element("p", f"{nothing_words(found).capitalize()} differs.")
    told = listed(found.told) if found.told else ""
    changes = table(("about", "times", "what", "where"), rows, "What differs")
    return joined((facts(head), same, section("What differs", changes), section("Sites", sites), section("Told", told)))


def _of_change(change: ModelChange) -> Markup:
    told = [f"{first_of(gone, 4)} → {first_of(come, 4)}".strip(" →") for gone, come in change.sites[:FEW]]
    ops = facts([("went", ", ".join(change.removed)), ("came", ", ".join(change.added))])
    return fold(f"{change.count:,} × {change.what}", (ops, listed(map(code, told))))
