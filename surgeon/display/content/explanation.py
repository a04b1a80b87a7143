"""What is said of why rules do not fire."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from surgeon.diagnostics.explanation import MAX_DETAILED_RULES, Explanation, Explanations
from surgeon.rules.mismatches.mismatch import Mismatch, detail_lines, reason_text
from surgeon.text import and_more, format_count, join_first

SHOWN = 2  # nodes named for equal misses
TOLD_WHOLE = 8  # rules of a group that are told whole: those that came nearest


def explanations_text(found: Explanations) -> str:
    """All of it, an empty line between rules."""
    return "\n\n".join("\n".join(lines) for lines in explained(found, found.node))


def explained(
    found: Sequence[Explanation], node: str | None = None, *, verbose: bool = False
) -> Iterator[Iterable[str]]:
    """The lines of each rule; of many, those that came nearest, and how many others there are.

    node: the name that was asked for.  verbose: tell of all; those that nothing in the model is near to at the end.
    """
    if len(found) <= MAX_DETAILED_RULES:
        yield from (explanation_lines(one, node) for one in found)
    elif verbose:
        yield from _all_of_many(found, node)
    else:
        yield from _nearest_of_many(found, node)


def _all_of_many(found: Sequence[Explanation], node: str | None) -> Iterator[Iterable[str]]:
    far = [one for one in found if node is None and not one.fires and not any(miss.node for miss in one.misses)]
    yield from (explanation_lines(one, node) for one in found if one not in far)
    if far:
        title = f"{format_count(len(far), 'other rule')} look for what is not there"
        yield [title, *(f"  {one.rule}: {'; '.join(dict.fromkeys(map(reason_text, one.misses)))}" for one in far)]


def _nearest_of_many(found: Sequence[Explanation], node: str | None) -> Iterator[Iterable[str]]:
    told_first = [one for one in found if one.fires] if node is not None else []
    others = [_matching(one) if node is not None else one for one in found if one not in told_first]
    near = [one for one in sorted(others, key=_weight, reverse=True) if _weight(one) > 1][:TOLD_WHOLE]
    yield from (explanation_lines(one, node) for one in (*told_first, *near))
    fires = [one for one in others if one.fires and one not in near]
    if fires:
        yield ["these fire, and come less near to firing elsewhere", *map(_fires_line, fires)]
    silent = len(others) - len(near) - len(fires)
    if silent:
        lack = "find nothing of theirs there" if node is not None else "come less near, or look for what is not there"
        yield [f"{format_count(silent, 'other rule')} {lack} (--verbose tells of each)"]


def _matching(found: Explanation) -> Explanation:
    """Without the misses of which no node matches."""
    return replace(found, misses=[miss for miss in found.misses if miss.matched])


def _weight(found: Explanation) -> float:
    """How much there is of what a rule looks for, where it came nearest: its nodes, and which part they are of all."""
    matched = (miss for miss in found.misses if miss.matched)
    return max((miss.matched**2 / (miss.total or miss.matched) for miss in matched), default=0.0)


def _fires_line(found: Explanation) -> str:
    names = join_first([name for _, name in found.fires], SHOWN)
    return f"  {found.rule}: {_times(found)}{format_count(len(found.fires), 'site')} ({names})"


def _times(found: Explanation) -> str:
    """How often a rule fires, before at how many sites, where these are fewer."""
    return f"{found.times:,} times at " if found.times > len(found.fires) else ""


def explanation_lines(found: Explanation, node: str | None = None) -> Iterator[str]:
    """What stands against one rule, line by line."""
    yield explanation_title(found, node)
    for miss in found.misses:
        yield from miss_lines(miss)
    if found.more:
        yield f" {and_more(found.more)} for other reasons (--top shows more)"


def explanation_title(found: Explanation, node: str | None) -> str:
    count = len(found.fires)
    asked = "" if node is None else f" at {node}"
    if found.taken_by and not count:
        asked += f", where {' and '.join(found.taken_by)} {'does' if len(found.taken_by) == 1 else 'do'}"
    if not count:
        near = any(miss.node for miss in found.misses)
        return f"{found.rule} does not fire{asked}{'; nearest misses:' if near else ':' if found.misses else ''}"
    if node is not None:
        return f"{found.rule} fires{asked}"
    names = join_first([name for _, name in found.fires], SHOWN)
    title = f"{found.rule} fires {_times(found) or 'at '}{format_count(count, 'site')} ({names})"
    return f"{title}; nearest misses:" if found.misses else f"{title}; nothing is missed"


def miss_lines(miss: Mismatch) -> Iterator[str]:
    """One miss: where and why, what else, what would mend it, and where else."""
    scope = f" ({miss.scope})" if miss.scope else ""
    place = f"at {miss.node}{scope}: " if miss.node else ""
    yield f"  {place}{reason_text(miss)}"
    yield from (f"  {line}" for line in detail_lines(miss))
    if miss.others:
        yield f"   {and_more(len(miss.others), 'like it')}: {join_first(miss.others, SHOWN)}"
