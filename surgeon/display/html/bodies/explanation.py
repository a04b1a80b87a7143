"""What is shown of why rules do not fire: the pattern beside the nodes, and the first difference marked in both."""

import inspect
from collections.abc import Iterator, Sequence

from surgeon.diagnostics.explanation import Explanation, Explanations, Mismatches
from surgeon.display.content.explanation import explanation_title
from surgeon.display.html.elements import Markup, Paper, code, element, escaped, fold, joined, lines, listed
from surgeon.display.pictures.draw import of_miss as draw_miss
from surgeon.display.pictures.pattern_diagram import of_pattern
from surgeon.display.pictures.svg import Picture
from surgeon.display.registry import shows
from surgeon.rules.definition_checks import traced
from surgeon.rules.matching.pattern import Output, Pattern
from surgeon.rules.mismatches.mismatch import Mismatch, further_lines, miss_text
from surgeon.rules.rule import Rule


@shows(Mismatch, "miss", lambda miss: f"{miss.rule} at {miss.node}")
def of_miss(miss: Mismatch, paper: Paper) -> Markup:
    """One miss."""
    return joined((element("p", miss_text(miss)), _inside(miss, paper)))


def _inside(miss: Mismatch, paper: Paper) -> Markup:
    further = list(further_lines(miss))
    told = lines(further, "what else is known") if further else ""
    return joined((told, _picture(miss, paper), _source(miss), _others(miss)))


@shows(Mismatches, "misses", lambda _: "Why rules do not fire", lambda misses: [miss.to_dict() for miss in misses])
def of_misses(misses: Mismatches, paper: Paper) -> Markup:
    """Misses, each unfolding to its picture."""
    return joined([_folded(miss, paper) for miss in misses]) or element("p", "Nothing is missed.")


@shows(Explanation, "explanation", lambda found: f"Why {found.rule} does not fire")
def of_explanation(found: Explanation, paper: Paper, node: str | None = None) -> Markup:
    """What stands against one rule.  node: the name that was asked for."""
    where = listed(code(f"{node} ({scope})" if scope else node) for scope, node in found.fires)
    fires = fold("where it fires", where) if found.fires else Markup("")
    more = element("p", f"{found.more:,} more, for other reasons") if found.more else Markup("")
    title = element("h2", explanation_title(found, node))
    return joined((title, fires, [_folded(miss, paper) for miss in found.misses], more))


@shows(
    Explanations,
    "explain",
    lambda _: "Why rules do not fire",
    lambda found: {"rules": [one.to_dict() for one in found]},
)
def of_explanations(found: Explanations, paper: Paper) -> Markup:
    """What stands against several rules."""
    return joined([of_explanation(one, paper, found.node) for one in found])


def _folded(miss: Mismatch, paper: Paper) -> Markup:
    return fold(miss_text(miss), _inside(miss, paper))


def _others(miss: Mismatch) -> Markup:
    return fold(f"{len(miss.others):,} more like it", listed(map(code, miss.others))) if miss.others else Markup("")


def _picture(miss: Mismatch, paper: Paper) -> Markup:
    """The pattern and the nodes."""
    if not miss.node or not miss._seen:
        return Markup("")
    index, rule = miss._seen
    pattern = _pattern(rule, miss)

    def draw() -> Picture:
        beside = None if pattern is None else of_pattern(pattern, f"the pattern {pattern.name}", miss.where)
        return draw_miss(index, miss.scope, miss.node, miss.at, beside)

    return paper.figure(draw, f"the pattern {miss.pattern} beside what is near {miss.node}")


def _pattern(rule: Rule, miss: Mismatch) -> Pattern | None:
    """The pattern that was missed: of those of its name the one that has the line."""
    named = [pattern for pattern in _patterns(rule) if pattern.name == miss.pattern]
    having = [pattern for pattern in named if miss.where in (pattern.where, *_places(pattern))]
    return next(iter((*having, *named)), None)


def _patterns(rule: Rule) -> Iterator[Pattern]:
    for function in (*rule.patterns, *(form.function for form in rule.forms)):
        yield from traced(function)


def _places(pattern: Pattern) -> Sequence[str]:
    return [value.operation.where for value in pattern.values if isinstance(value, Output)]


def _source(miss: Mismatch) -> Markup:
    """The pattern as it is written, with the line marked that was not met."""
    pattern = _pattern(miss._seen[1], miss) if miss._seen else None
    if pattern is None:
        return Markup("")
    try:
        written, first = inspect.getsourcelines(inspect.unwrap(pattern.function))
    except (OSError, TypeError):  # a function that was typed in nowhere
        return Markup("")
    _, _, number = miss.where.rpartition(":")
    shown = [
        element("mark", line.rstrip("\n")) if str(first + place) == number else escaped(line.rstrip("\n"))
        for place, line in enumerate(written)
    ]
    inside = element("pre", Markup("\n".join(shown)), tabindex="0", role="group", aria_label="the pattern as written")
    return fold(f"the pattern as it is written ({pattern.where})", inside)
