"""Which nodes of a model results speak of, so that a view can colour them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from surgeon.errors import UsageError
from surgeon.ir.scope import Scope
from surgeon.pipeline.reports.rewrite_report import Report, Site
from surgeon.rules.matching.matcher import Match
from surgeon.rules.mismatches.mismatch import Mismatch

Mark = tuple[str, str, bool, tuple[str, ...]]
"""The label of a graph, what is said, whether all is well, and the names of nodes, or of tensors that they make."""


def marks_of(result: object) -> Iterator[Mark]:
    """What a result says of which nodes.  Raises UsageError for what speaks of none."""
    if isinstance(result, Report):
        for site in (*result.sites, *result.rolled_back):
            yield _of_site(site)
    elif isinstance(result, Site):
        yield _of_site(result)
    elif isinstance(result, Match):
        yield result.scope.label, result.pattern.name, True, tuple(node.label for node in result.nodes)
    elif isinstance(result, Mismatch):
        yield result.scope, f"{result.rule} misses", False, tuple(filter(None, (result.node, *result.others)))
    elif isinstance(result, str):
        yield "", "named", True, (result,)
    elif isinstance(result, Iterable):
        for one in result:
            yield from marks_of(one)
    else:
        raise UsageError(f"A view cannot show {type(result).__name__}: give a report, sites, matches, misses or names.")


def _of_site(site: Site) -> Mark:
    """A site, in the model as it was and as it is: whichever names a view knows are coloured."""
    names = dict.fromkeys(node.name for node in (*site.replaced, *site.swept, *site.added))
    word = site.rule if site.outcome == "proved" else f"{site.rule}, {'rolled back' if site.undone else site.outcome}"
    return site.scope, word, site.outcome == "proved", tuple(names)


def marked(scopes: Sequence[Scope], marks: Iterable[Mark]) -> list[dict[str, Any]]:
    """Marks as a view has them: nodes by their place."""
    known: dict[str, dict[str, int]] = {}
    for scope in scopes:
        pairs = ((name, node.slot) for node in scope.nodes for name in (*node.outputs, node.label))
        known[scope.label] = {name: slot for name, slot in pairs if name}
    found = []
    for label, word, done, names in marks:
        places = sorted({known[label][name] for name in names if name in known.get(label, {})})
        if places:
            found.append({"scope": label, "nodes": places, "label": word, "done": done})
    return found
