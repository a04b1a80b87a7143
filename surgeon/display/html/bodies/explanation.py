"""What is shown of why rules do not fire: the pattern beside the nodes, and the first difference marked in both."""

import inspect
from collections.abc import Iterator, Sequence

from surgeon.diagnostics.explanation import Explanation, Explanations, Mismatches
from surgeon.display.content.explanation import explanation_title
from surgeon.display.html.elements import (
    Markup,
    RenderContext,
    bullet_list,
    code,
    collapsible,
    concat,
    element,
    escape,
    preformatted,
)
from surgeon.display.pictures.draw import of_miss as draw_miss
from surgeon.display.pictures.pattern_diagram import pattern_diagram
from surgeon.display.pictures.svg import Picture
from surgeon.display.registry import register_view
from surgeon.rules.definition_checks import try_trace
from surgeon.rules.matching.pattern import NodeOutput, Pattern
from surgeon.rules.mismatches.mismatch import Mismatch, detail_lines, mismatch_text
from surgeon.rules.rule import Rule


@register_view(Mismatch, "miss", lambda miss: f"{miss.rule} at {miss.node}")
def of_miss(miss: Mismatch, paper: RenderContext) -> Markup:
    """One miss."""
    return concat((element("p", mismatch_text(miss)), _inside(miss, paper)))


def _inside(miss: Mismatch, paper: RenderContext) -> Markup:
    further = list(detail_lines(miss))
    told = preformatted(further, "what else is known") if further else ""
    return concat((told, _picture(miss, paper), _source(miss), _others(miss)))


@register_view(
    Mismatches, "misses", lambda _: "Why rules do not fire", lambda misses: [miss.to_dict() for miss in misses]
)
def of_misses(misses: Mismatches, paper: RenderContext) -> Markup:
    """Misses, each unfolding to its picture."""
    return concat([_folded(miss, paper) for miss in misses]) or element("p", "Nothing is missed.")


@register_view(Explanation, "explanation", lambda found: f"Why {found.rule} does not fire")
def of_explanation(found: Explanation, paper: RenderContext, node: str | None = None) -> Markup:
    """What stands against one rule.  node: the name that was asked for."""
    where = bullet_list(code(f"{node} ({scope})" if scope else node) for scope, node in found.fires)
    fires = collapsible("where it fires", where) if found.fires else Markup("")
    more = element("p", f"{found.more:,} more, for other reasons") if found.more else Markup("")
    title = element("h2", explanation_title(found, node))
    return concat((title, fires, [_folded(miss, paper) for miss in found.misses], more))


@register_view(
    Explanations,
    "explain",
    lambda _: "Why rules do not fire",
    lambda found: {"rules": [one.to_dict() for one in found]},
)
def of_explanations(found: Explanations, paper: RenderContext) -> Markup:
    """What stands against several rules."""
    return concat([of_explanation(one, paper, found.node) for one in found])


def _folded(miss: Mismatch, paper: RenderContext) -> Markup:
    return collapsible(mismatch_text(miss), _inside(miss, paper))


def _others(miss: Mismatch) -> Markup:
    return (
        collapsible(f"{len(miss.others):,} more like it", bullet_list(map(code, miss.others)))
        if miss.others
        else Markup("")
    )


def _picture(miss: Mismatch, paper: RenderContext) -> Markup:
    """The pattern and the nodes."""
    if not miss.node or not miss._seen:
        return Markup("")
    index, rule = miss._seen
    pattern = _pattern(rule, miss)

    def draw() -> Picture:
        beside = None if pattern is None else pattern_diagram(pattern, f"the pattern {pattern.name}", miss.where)
        return draw_miss(index, miss.scope, miss.node, at=miss.at, pattern=beside)

    return paper.figure(draw, f"the pattern {miss.pattern} beside what is near {miss.node}")


def _pattern(rule: Rule, miss: Mismatch) -> Pattern | None:
    """The pattern that was missed: of those of its name the one that has the line."""
    named = [pattern for pattern in _patterns(rule) if pattern.name == miss.pattern]
    having = [pattern for pattern in named if miss.where in (pattern.where, *_places(pattern))]
    return next(iter((*having, *named)), None)


def _patterns(rule: Rule) -> Iterator[Pattern]:
    for function in (*rule.patterns, *(form.function for form in rule.forms)):
        yield from try_trace(function)


def _places(pattern: Pattern) -> Sequence[str]:
    return [value.operation.where for value in pattern.values if isinstance(value, NodeOutput)]


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
        element("mark", line.rstrip("\n")) if str(first + place) == number else escape(line.rstrip("\n"))
        for place, line in enumerate(written)
    ]
    inside = element("pre", Markup("\n".join(shown)), tabindex="0", role="group", aria_label="the pattern as written")
    return collapsible(f"the pattern as it is written ({pattern.where})", inside)
