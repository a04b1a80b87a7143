"""Why rules do not fire, as blocks: the reasons, and the pattern next to the nodes with the first difference marked."""

import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from surgeon.diagnostics.explanation import MAX_DETAILED_RULES, Explanation, Explanations, Mismatches
from surgeon.display.blocks import Block, Code, Document, Figure, Item, Items, Note, Section, Span, Text, lines_of
from surgeon.display.content.near_misses import grouped
from surgeon.display.content.report import counted_line
from surgeon.display.registry import file_name, reports
from surgeon.rules.definition_checks import try_trace
from surgeon.rules.matching.pattern import NodeOutput, Pattern
from surgeon.rules.mismatches.mismatch import Mismatch, detail_lines, mismatch_text, reason_text
from surgeon.rules.rule import Rule
from surgeon.text import and_more, format_count, join_all, join_first

if TYPE_CHECKING:
    from surgeon.display.pictures.svg import Picture

SHOWN = 2  # nodes listed for equal mismatches
MAX_NEAREST, MAX_NAMED = 3, 3  # near misses in a summary; rules in a headline
TITLE = "Why rules do not fire"


@reports(Explanations, "explain", lambda found: {"rules": [one.to_dict() for one in found]})
def document(found: Explanations) -> Document:
    """The near misses of several rules: the nearest in the summary, all of them in the details."""
    rows = [*lines_of("fires", _fires_lines(found)), *_nearest_rows(found), *lines_of("others", _absent_lines(found))]
    headline = (file_name(found.model, "model in memory"), f"  {_matches(found)}", Span(" (details: -v)", "shell"))
    return Document(TITLE, list(_details(found)), summary=rows, headline=headline)


def _matches(found: Explanations) -> str:
    """The names of the rules that match, and of those that do not; of many, the numbers."""
    yes, no = ([one.rule for one in found if bool(one.fires) is fires] for fires in (True, False))
    at_node = "" if found.node is None else f" at {found.node}"
    if len(found) > MAX_NAMED:
        return f"{len(yes):,} of {format_count(len(found), 'rule')} match{'es' * (len(yes) == 1)}{at_node}"
    nowhere = ("does not match", "do not match") if at_node else ("matches nowhere", "match nowhere")
    verbs = (yes, ("matches", "match")), (no, nowhere)
    return "; ".join(f"{join_all(rules)} {verb[len(rules) > 1]}" for rules, verb in verbs if rules) + at_node


def _fires_lines(found: Explanations) -> Iterator[Text]:
    """The rules that match, with their numbers of sites; the names of the sites of a single rule."""
    firing = [one for one in found if one.fires]
    if len(found) == 1 and firing and found.node is None:
        names = join_first([name for _, name in firing[0].fires], SHOWN)
        yield f"{_times(firing[0])}{format_count(len(firing[0].fires), 'site')} ({names})"
    elif firing and len(found) > 1:
        counts = {one.rule: len(one.fires) for one in firing}
        yield counted_line(counts) if found.node is None else ", ".join(counts)


def _nearest_rows(found: Explanations) -> Iterator[tuple[Text, Text]]:
    """The nearest misses, and changes that fix the first of them."""
    least = 1 if len(found) > MAX_DETAILED_RULES else 0 if len(found) > 1 else -1  # one node is too few of many
    misses = [miss for one in found for miss in one.misses if miss.node and _nearness(miss) > least]
    kinds = grouped(sorted(misses, key=_nearness, reverse=True))
    for place, (first, *others) in enumerate(kinds[:MAX_NEAREST]):
        rules = ", ".join(dict.fromkeys(miss.rule for miss in (first, *others)))
        count = first.count + sum(miss.count for miss in others)
        yield "nearest" if not place else "", mismatch_text(first, rules, count - 1)
        for line in detail_lines(first) if not place else ():
            yield "", Span(line, "help") if first.change and line.endswith(first.change) else line
    more = len(kinds) - MAX_NEAREST + sum(one.more for one in found)
    yield "", (and_more(more).lstrip(), Span(": -v shows them" if more > 0 else "", "shell"))


def _absent_lines(found: Explanations) -> Iterator[Text]:
    """Why rules are nowhere near: the ops that the model does not have."""
    near = {one.rule for one in found if one.fires or any(_nodes(one)) or one.taken_by}
    lines = [f"{miss.rule}: {miss.reason}" for one in found if one.rule not in near for miss in one.misses[:1]]
    if len(found) > MAX_DETAILED_RULES:
        some = len(near) - sum(bool(one.fires) for one in found)
        some_text = f", {some:,} with one" if some and found.node is None else ""
        lines = [f"{format_count(len(found) - len(near), 'rule')} without a near miss{some_text}"]
        lines *= len(near) < len(found)
    yield from lines


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


def _details(found: Explanations) -> Iterator[Block]:
    """Each rule; of many, those without a near miss together."""
    is_many = len(found) > MAX_DETAILED_RULES and found.node is None
    distant = [item for item in found if is_many and not item.fires and not any(_nodes(item))]
    near = [item for item in found if item not in distant]
    yield from (block for item in near for block in explanation_blocks(item, found.node, folded=True))
    reasons = [
        ": ".join((item.rule, *filter(None, ["; ".join(dict.fromkeys(map(reason_text, item.misses)))])))
        for item in distant
    ]
    title = f"{format_count(len(distant), 'other rule')} without a near miss"
    yield Section(title, [Items(reasons, most=len(reasons))])


def _nodes(found: Explanation) -> Iterator[str]:
    return (mismatch.node for mismatch in found.misses)


def _nearness(miss: Mismatch) -> float:
    """The nearness of a mismatch: its matched nodes, weighted by their share of the pattern."""
    return miss.matched**2 / (miss.total or miss.matched or 1)


def _times(found: Explanation) -> str:
    """How often a rule fires, if that is more than its number of sites."""
    return f"{found.times:,} times at " if found.times > len(found.fires) else ""


def explanation_blocks(found: Explanation, node: str | None = None, folded: bool = False) -> Iterator[Block]:
    """The near misses of one rule.  node: the requested name."""
    misses: list[Text | Item] = [_reason(mismatch) for mismatch in found.misses]
    if found.more:
        misses.append(f"{and_more(found.more).lstrip()} for other reasons (--top shows more)")
    lines = [Items(misses, most=10 * len(misses))] if misses else []
    yield Section((found.rule, _what_happens(found, node)), lines, folded)
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
    """The value in the model, the change that helps, and other sites with the same reason."""
    details = (line.removeprefix("  ") for line in detail_lines(mismatch))
    found: list[Text] = [Span(line, "help") if line.startswith("change: ") else line for line in details]
    more = and_more(len(mismatch.others), "like it").lstrip()
    return [*found, f"{more}: {join_first(mismatch.others, SHOWN)}"] if more else found


def _beside(mismatch: Mismatch) -> Iterator[Section]:
    """The pattern next to the nodes, folded, as a picture and as source."""
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
        blocks.append(Figure(draw, f"the pattern {mismatch.pattern} next to the nodes near {mismatch.node}"))
    if pattern is not None:
        blocks += _source(pattern, mismatch.where)
    yield Section((Span(mismatch.rule, "code"), " next to ", Span(mismatch.node or "the model", "code")), blocks)


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
