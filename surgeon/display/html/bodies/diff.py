"""The HTML of the differences between two models."""

from pathlib import Path

from surgeon.display.content.diff import common_nodes_text, no_difference_text
from surgeon.display.diff.model_diff import ModelChange, ModelDiff
from surgeon.display.html.elements import (
    HtmlContent,
    Markup,
    RenderContext,
    bullet_list,
    code,
    collapsible,
    concat,
    element,
    fields,
    section,
    table,
)
from surgeon.display.registry import register_view
from surgeon.text import join_first, seconds_text

FEW = 200  # sites listed per change


def _title(found: ModelDiff) -> str:
    return " and ".join(Path(path).name or "a model" for path in (found.first, found.second))


@register_view(ModelDiff, "diff", _title)
def diff_body(found: ModelDiff, _: RenderContext) -> Markup:
    """The changes, with equal changes merged and their sites collapsed."""
    head: list[tuple[str, HtmlContent]] = [
        ("first", code(found.first) if found.first else "a model in memory"),
        ("second", code(found.second) if found.second else "a model in memory"),
        ("same", common_nodes_text(found)),
        ("time", seconds_text(found.seconds)),
    ]
    rows = [(change.kind, change.count, code(change.what), change.scope or "main graph") for change in found.changes]
    sites = [_change_sites(change) for change in found.changes if change.sites]
    same = "" if found.differs else element("p", f"{no_difference_text(found).capitalize()} differs.")
    notes = bullet_list(found.told) if found.told else ""
    changes = table(("about", "times", "what", "where"), rows, "What differs")
    return concat(
        (fields(head), same, section("What differs", changes), section("Sites", sites), section("Told", notes))
    )


def _change_sites(change: ModelChange) -> Markup:
    names = [f"{join_first(gone, 4)} → {join_first(come, 4)}".strip(" →") for gone, come in change.sites[:FEW]]
    ops = fields([("went", ", ".join(change.removed)), ("came", ", ".join(change.added))])
    return collapsible(f"{change.count:,} × {change.what}", (ops, bullet_list(map(code, names))))
