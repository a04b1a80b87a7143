"""Why rules do not fire, as blocks: the reasons, and the pattern beside the nodes with the first difference marked."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from surgeon.diagnostics.explanation import MAX_DETAILED_RULES, Explanation, Explanations, Mismatches
from surgeon.display.blocks import Block, Code, Document, Figure, Item, Items, Note, Section, Span, Text
from surgeon.display.registry import reports
from surgeon.rules.definition_checks import try_trace
from surgeon.rules.matching.pattern import NodeOutput, Pattern
from surgeon.rules.mismatches.mismatch import Mismatch, detail_lines, mismatch_text, reason_text
from surgeon.rules.rule import Rule
from surgeon.text import and_more, format_count, join_first

if TYPE_CHECKING:
    from surgeon.display.pictures.svg import Picture

SHOWN = 2  # nodes listed for equal mismatches
MAX_FULL_RULES = 8  # rules of a group with all their lines: those with the nearest mismatches
TITLE = "Why rules do not fire"


@reports(Explanations, "explain", lambda found: {"rules": [one.to_dict() for one in found]})
def document(found: Explanations, *, verbose: bool = True) -> Document:
    """The near misses of several rules.  verbose: of many rules all, not only those with the nearest mismatches."""
    if len(found) <= MAX_DETAILED_RULES:
        blocks: Iterable[Block] = (block for item in found for block in explanation_blocks(item, found.node))
    elif verbose:
        blocks = _all_of_many(found, found.node)
    else:
        blocks = _nearest_of_many(found, found.node)
    return Document(TITLE, list(blocks))


@reports(Explanation, "explanation")
def explanation_document(found: Explanation) -> Document:
    """The near misses of one rule."""
    return Document(f"Why {found.rule} does not fire", list(explanation_blocks(found)))


@reports(Mismatches, "misses", lambda found: [mismatch.to_dict() for mismatch in found])
def mismatches_document(found: Mismatches) -> Document:
    """Near misses."""
    nothing = [] if found else [Note("Nothing is missed.")]
    return Document(TITLE, [*nothing, *(block for one in found for block in mismatch_document(one).details)])


@reports(Mismatch, "miss")
def mismatch_document(mismatch: Mismatch) -> Document:
    """One near miss."""
    below = _lines(mismatch)
    lines = Items([Item(mismatch_text(mismatch), below)], most=len(below) + 1)
    return Document(f"{mismatch.rule} at {mismatch.node}", [lines, *_beside(mismatch)])


def _all_of_many(found: Sequence[Explanation], node: str | None) -> Iterator[Block]:
    distant = [item for item in found if node is None and not item.fires and not any(_nodes(item))]
    yield from (block for item in found if item not in distant for block in explanation_blocks(item, node))
    reasons = [f"{item.rule}: {'; '.join(dict.fromkeys(map(reason_text, item.misses)))}" for item in distant]
    title = f"{format_count(len(distant), 'other rule')} look for what is not there"
    yield Section(title, [Items(reasons, most=len(reasons))], folded=False)


def _nodes(found: Explanation) -> Iterator[str]:
    return (mismatch.node for mismatch in found.misses)


def _nearest_of_many(found: Sequence[Explanation], node: str | None) -> Iterator[Block]:
    firing = [item for item in found if item.fires] if node is not None else []
    others = [_with_matches(item) if node is not None else item for item in found if item not in firing]
    near = [item for item in sorted(others, key=_nearness, reverse=True) if _nearness(item) > 1][:MAX_FULL_RULES]
    yield from (block for item in (*firing, *near) for block in explanation_blocks(item, node))
    fires = [item for item in others if item.fires and item not in near]
    title = "these fire, and come less near to firing elsewhere"
    yield Section(title, [Items(list(map(_fires_line, fires)), most=len(fires))], folded=False)
    silent = len(others) - len(near) - len(fires)
    if silent:
        lack = "find nothing of theirs there" if node is not None else "come less near, or look for what is not there"
        yield Section(f"{format_count(silent, 'other rule')} {lack} (--verbose tells of each)", (), folded=False)


def _with_matches(found: Explanation) -> Explanation:
    """An explanation without the mismatches where no node matches."""
    return replace(found, misses=[mismatch for mismatch in found.misses if mismatch.matched])


def _nearness(found: Explanation) -> float:
    """The nearness of a rule's best mismatch: its matched nodes, weighted by their share of the pattern."""
    matched = (mismatch for mismatch in found.misses if mismatch.matched)
    return max((mismatch.matched**2 / (mismatch.total or mismatch.matched) for mismatch in matched), default=0.0)


def _fires_line(found: Explanation) -> str:
    names = join_first([name for _, name in found.fires], SHOWN)
    return f"{found.rule}: {_times(found)}{format_count(len(found.fires), 'site')} ({names})"


def _times(found: Explanation) -> str:
    """How often a rule fires, if that is more than its number of sites."""
    return f"{found.times:,} times at " if found.times > len(found.fires) else ""


def explanation_blocks(found: Explanation, node: str | None = None) -> Iterator[Block]:
    """The near misses of one rule.  node: the requested name."""
    misses: list[Text | Item] = [_reason(mismatch) for mismatch in found.misses]
    if found.more:
        misses.append(f"{and_more(found.more).lstrip()} for other reasons (--top shows more)")
    lines = [Items(misses, most=10 * len(misses))] if misses else []
    yield Section((found.rule, _what_happens(found, node)), lines, folded=False)
    sites = [Span(f"{name} ({scope})" if scope else name, "code") for scope, name in found.fires]
    yield Section("where it fires", [Items(sites)])
    yield from (fold for mismatch in found.misses for fold in _beside(mismatch))


def _what_happens(found: Explanation, node: str | None) -> str:
    """Whether a rule fires, and where."""
    count = len(found.fires)
    at_node = "" if node is None else f" at {node}"
    if found.taken_by and not count:
        at_node += f", where {' and '.join(found.taken_by)} {'does' if len(found.taken_by) == 1 else 'do'}"
    if not count:
        near = any(_nodes(found))
        return f" does not fire{at_node}{'; nearest misses:' if near else ':' if found.misses else ''}"
    if node is not None:
        return f" fires{at_node}"
    names = join_first([name for _, name in found.fires], SHOWN)
    title = f" fires {_times(found) or 'at '}{format_count(count, 'site')} ({names})"
    return f"{title}; nearest misses:" if found.misses else f"{title}; nothing is missed"


def _reason(mismatch: Mismatch) -> Item:
    """One mismatch: where and why, details, the change that helps, and where else."""
    scope = f" ({mismatch.scope})" if mismatch.scope else ""
    place = f"at {mismatch.node}{scope}: " if mismatch.node else ""
    return Item(f"{place}{reason_text(mismatch)}", _lines(mismatch))


def _lines(mismatch: Mismatch) -> list[Text]:
    """What is found, the change that helps, and where else the same prevents the rule."""
    details = (line.removeprefix("  ") for line in detail_lines(mismatch))
    found: list[Text] = [Span(line, "help") if line.startswith("change: ") else line for line in details]
    more = and_more(len(mismatch.others), "like it").lstrip()
    return [*found, f"{more}: {join_first(mismatch.others, SHOWN)}"] if more else found


def _beside(mismatch: Mismatch) -> Iterator[Section]:
    """The pattern beside the nodes, folded, as a picture and as source."""
    if not mismatch._seen:
        return
    index, rule = mismatch._seen
    pattern = _pattern(rule, mismatch)

    def draw() -> "Picture":
        from surgeon.display.pictures.draw import draw_mismatch
        from surgeon.display.pictures.pattern_diagram import pattern_diagram

        beside = None if pattern is None else pattern_diagram(pattern, f"the pattern {pattern.name}", mismatch.where)
        return draw_mismatch(index, mismatch.scope, mismatch.node, at=mismatch.at, pattern=beside)

    blocks: list[Block] = []
    if mismatch.node:
        blocks.append(Figure(draw, f"the pattern {mismatch.pattern} beside what is near {mismatch.node}"))
    if pattern is not None:
        blocks += _source(pattern, mismatch.where)
    yield Section((Span(mismatch.rule, "code"), " beside ", Span(mismatch.node or "the model", "code")), blocks)


def _pattern(rule: Rule, mismatch: Mismatch) -> Pattern | None:
    """The pattern of a mismatch: among patterns of its name, the one that contains its location."""
    functions = (*rule.patterns, *(form.function for form in rule.forms))
    named = [found for function in functions for found in try_trace(function) if found.name == mismatch.pattern]
    at_location = [pattern for pattern in named if mismatch.where in (pattern.where, *_locations(pattern))]
    return next(iter((*at_location, *named)), None)


def _locations(pattern: Pattern) -> Sequence[str]:
    return [value.operation.where for value in pattern.values if isinstance(value, NodeOutput)]


def _source(pattern: Pattern, where: str) -> Iterator[Block]:
    """The source of a pattern.  where: the line that is marked."""
    try:
        written, first = inspect.getsourcelines(inspect.unwrap(pattern.function))
    except (OSError, TypeError):  # a function without a source file
        return
    lines = [line.rstrip("\n") for line in written]
    number = int(where.rpartition(":")[2] or 0) - first + 1
    marked = number if 0 < number <= len(lines) else 0
    yield Section(f"the pattern as it is written ({pattern.where})", [Code(lines, "the pattern", marked=marked)])
