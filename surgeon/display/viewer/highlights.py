"""The nodes of results, to be coloured in a view."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from surgeon.errors import UsageError
from surgeon.ir.scope import Scope
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.reports.site import Site
from surgeon.rules.matching.match import Match
from surgeon.rules.mismatches.mismatch import Mismatch

Mark = tuple[str, str, bool, tuple[str, ...]]
"""The label of a graph, the text, whether it is proved, and the names of nodes or of their outputs."""


def marks_of(result: object) -> Iterator[Mark]:
    """The marks of a result.  Raises UsageError for a result without nodes."""
    if isinstance(result, RewriteReport):
        for site in (*result.sites, *result.rolled_back):
            yield _site_mark(site)
    elif isinstance(result, Site):
        yield _site_mark(result)
    elif isinstance(result, Match):
        yield result.scope.label, result.pattern.name, True, tuple(node.label for node in result.nodes)
    elif isinstance(result, Mismatch):
        yield result.scope, f"{result.rule} misses", False, tuple(filter(None, (result.node, *result.others)))
    elif isinstance(result, str):
        yield "", "named", True, (result,)
    elif isinstance(result, Iterable):
        for item in result:
            yield from marks_of(item)
    else:
        raise UsageError(f"A view cannot show {type(result).__name__}: give a report, sites, matches, misses or names.")


def _site_mark(site: Site) -> Mark:
    """The mark of a site, with its names before and after; a view colours the names that it knows."""
    names = dict.fromkeys(node.name for node in (*site.replaced, *site.swept, *site.added))
    word = site.rule if site.outcome == "proved" else f"{site.rule}, {'rolled back' if site.undone else site.outcome}"
    return site.scope, word, site.outcome == "proved", tuple(names)


def view_marks(scopes: Sequence[Scope], marks: Iterable[Mark]) -> list[dict[str, Any]]:
    """Marks in the form of a view: nodes by their slots."""
    known: dict[str, dict[str, int]] = {}
    for scope in scopes:
        pairs = ((name, node.slot) for node in scope.nodes for name in (*node.outputs, node.label))
        known[scope.label] = {name: slot for name, slot in pairs if name}
    found = []
    for label, word, done, names in marks:
        slots = sorted({known[label][name] for name in names if name in known.get(label, {})})
        if slots:
            found.append({"scope": label, "nodes": slots, "label": word, "done": done})
    return found
