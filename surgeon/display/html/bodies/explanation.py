"""The HTML of near misses: the pattern beside the nodes, with the first difference marked in both."""

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
from surgeon.display.pictures.draw import draw_mismatch
from surgeon.display.pictures.pattern_diagram import pattern_diagram
from surgeon.display.pictures.svg import Picture
from surgeon.display.registry import register_view
from surgeon.rules.definition_checks import try_trace
from surgeon.rules.matching.pattern import NodeOutput, Pattern
from surgeon.rules.mismatches.mismatch import Mismatch, detail_lines, mismatch_text
from surgeon.rules.rule import Rule


@register_view(Mismatch, "miss", lambda mismatch: f"{mismatch.rule} at {mismatch.node}")
def mismatch_body(mismatch: Mismatch, context: RenderContext) -> Markup:
    """One near miss."""
    return concat((element("p", mismatch_text(mismatch)), _details(mismatch, context)))


def _details(mismatch: Mismatch, context: RenderContext) -> Markup:
    further = list(detail_lines(mismatch))
    known = preformatted(further, "what else is known") if further else ""
    return concat((known, _picture(mismatch, context), _source(mismatch), _other_nodes(mismatch)))


@register_view(
    Mismatches, "misses", lambda _: "Why rules do not fire", lambda found: [mismatch.to_dict() for mismatch in found]
)
def mismatches_body(mismatches: Mismatches, context: RenderContext) -> Markup:
    """Near misses, each with a collapsed picture."""
    return concat([_collapsed(mismatch, context) for mismatch in mismatches]) or element("p", "Nothing is missed.")


@register_view(Explanation, "explanation", lambda found: f"Why {found.rule} does not fire")
def explanation_body(found: Explanation, context: RenderContext, node: str | None = None) -> Markup:
    """The near misses of one rule.  node: the requested name."""
    where = bullet_list(code(f"{node} ({scope})" if scope else node) for scope, node in found.fires)
    fires = collapsible("where it fires", where) if found.fires else Markup("")
    more = element("p", f"{found.more:,} more, for other reasons") if found.more else Markup("")
    title = element("h2", explanation_title(found, node))
    return concat((title, fires, [_collapsed(mismatch, context) for mismatch in found.misses], more))


@register_view(
    Explanations,
    "explain",
    lambda _: "Why rules do not fire",
    lambda found: {"rules": [one.to_dict() for one in found]},
)
def explanations_body(found: Explanations, context: RenderContext) -> Markup:
    """The near misses of several rules."""
    return concat([explanation_body(one, context, found.node) for one in found])


def _collapsed(mismatch: Mismatch, context: RenderContext) -> Markup:
    return collapsible(mismatch_text(mismatch), _details(mismatch, context))


def _other_nodes(mismatch: Mismatch) -> Markup:
    return (
        collapsible(f"{len(mismatch.others):,} more like it", bullet_list(map(code, mismatch.others)))
        if mismatch.others
        else Markup("")
    )


def _picture(mismatch: Mismatch, context: RenderContext) -> Markup:
    """The pattern beside the nodes."""
    if not mismatch.node or not mismatch._seen:
        return Markup("")
    index, rule = mismatch._seen
    pattern = _pattern(rule, mismatch)

    def draw() -> Picture:
        beside = None if pattern is None else pattern_diagram(pattern, f"the pattern {pattern.name}", mismatch.where)
        return draw_mismatch(index, mismatch.scope, mismatch.node, at=mismatch.at, pattern=beside)

    return context.figure(draw, f"the pattern {mismatch.pattern} beside what is near {mismatch.node}")


def _pattern(rule: Rule, mismatch: Mismatch) -> Pattern | None:
    """The pattern of a mismatch: among patterns of its name, the one that contains its location."""
    named = [pattern for pattern in _patterns(rule) if pattern.name == mismatch.pattern]
    at_location = [pattern for pattern in named if mismatch.where in (pattern.where, *_locations(pattern))]
    return next(iter((*at_location, *named)), None)


def _patterns(rule: Rule) -> Iterator[Pattern]:
    for function in (*rule.patterns, *(form.function for form in rule.forms)):
        yield from try_trace(function)


def _locations(pattern: Pattern) -> Sequence[str]:
    return [value.operation.where for value in pattern.values if isinstance(value, NodeOutput)]


def _source(mismatch: Mismatch) -> Markup:
    """The source of the pattern, with the mismatched line marked."""
    pattern = _pattern(mismatch._seen[1], mismatch) if mismatch._seen else None
    if pattern is None:
        return Markup("")
    try:
        written, first = inspect.getsourcelines(inspect.unwrap(pattern.function))
    except (OSError, TypeError):  # a function without a source file
        return Markup("")
    _, _, number = mismatch.where.rpartition(":")
    shown = [
        element("mark", line.rstrip("\n")) if str(first + place) == number else escape(line.rstrip("\n"))
        for place, line in enumerate(written)
    ]
    inside = element("pre", Markup("\n".join(shown)), tabindex="0", role="group", aria_label="the pattern as written")
    return collapsible(f"the pattern as it is written ({pattern.where})", inside)
