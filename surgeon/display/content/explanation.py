"""The texts of explanations why rules do not fire."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from surgeon.diagnostics.explanation import MAX_DETAILED_RULES, Explanation, Explanations
from surgeon.rules.mismatches.mismatch import Mismatch, detail_lines, reason_text
from surgeon.text import and_more, format_count, join_first

SHOWN = 2  # nodes listed for equal mismatches
MAX_FULL_RULES = 8  # rules of a group with all their lines: those with the nearest mismatches


def explanations_text(found: Explanations) -> str:
    """All explanations, with an empty line between rules."""
    return "\n\n".join("\n".join(lines) for lines in explanation_blocks(found, found.node))


def explanation_blocks(
    found: Sequence[Explanation], node: str | None = None, *, verbose: bool = False
) -> Iterator[Iterable[str]]:
    """The lines of each rule; of many rules, those with the nearest mismatches, and the number of others.

    node: the requested name.  verbose: show all rules; those without a near mismatch last.
    """
    if len(found) <= MAX_DETAILED_RULES:
        yield from (explanation_lines(item, node) for item in found)
    elif verbose:
        yield from _all_of_many(found, node)
    else:
        yield from _nearest_of_many(found, node)


def _all_of_many(found: Sequence[Explanation], node: str | None) -> Iterator[Iterable[str]]:
    distant = [item for item in found if node is None and not item.fires and not any(_nodes(item))]
    yield from (explanation_lines(item, node) for item in found if item not in distant)
    if distant:
        title = f"{format_count(len(distant), 'other rule')} look for what is not there"
        reasons = ("; ".join(dict.fromkeys(map(reason_text, item.misses))) for item in distant)
        yield [title, *(f"  {item.rule}: {text}" for item, text in zip(distant, reasons, strict=True))]


def _nodes(found: Explanation) -> Iterator[str]:
    return (mismatch.node for mismatch in found.misses)


def _nearest_of_many(found: Sequence[Explanation], node: str | None) -> Iterator[Iterable[str]]:
    firing = [item for item in found if item.fires] if node is not None else []
    others = [_with_matches(item) if node is not None else item for item in found if item not in firing]
    near = [item for item in sorted(others, key=_nearness, reverse=True) if _nearness(item) > 1][:MAX_FULL_RULES]
    yield from (explanation_lines(item, node) for item in (*firing, *near))
    fires = [item for item in others if item.fires and item not in near]
    if fires:
        yield ["these fire, and come less near to firing elsewhere", *map(_fires_line, fires)]
    silent = len(others) - len(near) - len(fires)
    if silent:
        lack = "find nothing of theirs there" if node is not None else "come less near, or look for what is not there"
        yield [f"{format_count(silent, 'other rule')} {lack} (--verbose tells of each)"]


def _with_matches(found: Explanation) -> Explanation:
    """An explanation without the mismatches where no node matches."""
    return replace(found, misses=[mismatch for mismatch in found.misses if mismatch.matched])


def _nearness(found: Explanation) -> float:
    """The nearness of a rule's best mismatch: its matched nodes, weighted by their share of the pattern."""
    matched = (mismatch for mismatch in found.misses if mismatch.matched)
    return max((mismatch.matched**2 / (mismatch.total or mismatch.matched) for mismatch in matched), default=0.0)


def _fires_line(found: Explanation) -> str:
    names = join_first([name for _, name in found.fires], SHOWN)
    return f"  {found.rule}: {_times(found)}{format_count(len(found.fires), 'site')} ({names})"


def _times(found: Explanation) -> str:
    """How often a rule fires, if that is more than its number of sites."""
    return f"{found.times:,} times at " if found.times > len(found.fires) else ""


def explanation_lines(found: Explanation, node: str | None = None) -> Iterator[str]:
    """The mismatches of one rule, line by line."""
    yield explanation_title(found, node)
    for mismatch in found.misses:
        yield from mismatch_lines(mismatch)
    if found.more:
        yield f" {and_more(found.more)} for other reasons (--top shows more)"


def explanation_title(found: Explanation, node: str | None) -> str:
    count = len(found.fires)
    at_node = "" if node is None else f" at {node}"
    if found.taken_by and not count:
        at_node += f", where {' and '.join(found.taken_by)} {'does' if len(found.taken_by) == 1 else 'do'}"
    if not count:
        near = any(_nodes(found))
        return f"{found.rule} does not fire{at_node}{'; nearest misses:' if near else ':' if found.misses else ''}"
    if node is not None:
        return f"{found.rule} fires{at_node}"
    names = join_first([name for _, name in found.fires], SHOWN)
    title = f"{found.rule} fires {_times(found) or 'at '}{format_count(count, 'site')} ({names})"
    return f"{title}; nearest misses:" if found.misses else f"{title}; nothing is missed"


def mismatch_lines(mismatch: Mismatch) -> Iterator[str]:
    """One mismatch: where and why, details, the change that helps, and where else."""
    scope = f" ({mismatch.scope})" if mismatch.scope else ""
    place = f"at {mismatch.node}{scope}: " if mismatch.node else ""
    yield f"  {place}{reason_text(mismatch)}"
    yield from (f"  {line}" for line in detail_lines(mismatch))
    if mismatch.others:
        yield f"   {and_more(len(mismatch.others), 'like it')}: {join_first(mismatch.others, SHOWN)}"
