"""The differences between two models as blocks: equal changes once, and their sites folded."""

from itertools import groupby
from pathlib import Path

from surgeon.display.blocks import ARROW, Block, Document, Facts, Items, Section, Span, Text, lines_of
from surgeon.display.diff.model_diff import ModelChange, ModelDiff
from surgeon.display.registry import reports
from surgeon.text import join_first, seconds_text

SHOWN, SHOWN_NODES, SHOWN_SITES = 2, 4, 200  # names of a change, nodes of a site, sites of a change
MAX_CHANGES = 40  # changes where there is little room


@reports(ModelDiff, "diff")
def document(found: ModelDiff) -> Document:
    """The differences between two models."""
    paths = (found.first, found.second)
    names = [Span(path, "code") if path else "a model in memory" for path in paths]
    changes: list[tuple[str, Text]] = []
    for kind, equal in groupby(found.changes, key=lambda change: change.kind):
        changes += lines_of(kind, map(change_words, equal))
    more = "changes (--json has all)"
    end: list[tuple[str, Text]] = [("time", seconds_text(found.seconds))]
    details: list[Block] = [
        Facts([("same", common_nodes_text(found))]),
        Facts(changes, MAX_CHANGES, more),
        Facts([("differs", "" if found.differs else no_difference_text(found))]),
        Facts(lines_of("told", found.told), MAX_CHANGES, "(--json has all)"),
    ]
    sites = [_change_sites(change) for change in found.changes if change.sites]
    details += [Section("sites", sites, folded=False)] if sites else []
    title = " and ".join(Path(path).name or "a model" for path in paths)
    return Document(title, details, end, list(zip(("first", "second"), names, strict=True)))


def _change_sites(change: ModelChange) -> Section:
    sites = []
    for gone, come in change.sites[:SHOWN_SITES]:
        sides = [Span(join_first(side, SHOWN_NODES), "code") for side in (gone, come) if side]
        sites.append((sides[0], " ", ARROW, " ", sides[1]) if len(sides) == 2 else sides)
    ops = Facts([("went", ", ".join(change.removed)), ("came", ", ".join(change.added))])
    return Section(f"{change.count:,} × {change.what}", [ops, Items(sites)])


def common_nodes_text(found: ModelDiff) -> str:
    """How many nodes are the same in both models."""
    names = f", {found.renamed:,} of them under another name" if found.renamed else ""
    return f"{found.same:,} of {found.nodes[0]:,} and {found.nodes[1]:,} nodes{names}"


def no_difference_text(found: ModelDiff) -> str:
    """The differences between models that compute the same."""
    others = [*(["names"] if found.renamed else []), *(["metadata"] if found.told else [])]
    return f"nothing but {' and '.join(others)}" if others else "nothing"


def change_words(change: ModelChange) -> str:
    """A change in one line: how often, what, and where."""
    times = f"{change.count:,} × " if change.count > 1 else ""
    inside = f" ({change.scope})" if change.scope else ""
    where = where_words(change)
    return f"{times}{change.what}{f' at {where}' if where else ''}{inside}"


def where_words(change: ModelChange) -> str:
    """The first nodes: the last node of each site, by its name in the first model, else in the second."""
    names = [(gone or come)[-1] for gone, come in change.sites]
    return join_first(names, SHOWN) if names else ""
