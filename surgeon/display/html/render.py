"""Shows results as a fragment for a notebook cell, or as a page."""

from typing import Any

from surgeon.display.html.bodies import (  # noqa: F401
    authoring,
    bench,
    check,
    conversion,
    diff,
    edit,
    explanation,
    fleet,
    inspection,
    rewrite,
    rule_manual,
)
from surgeon.display.html.elements import Markup, RenderContext, concat, element
from surgeon.display.html.page import Page, asset, render_page
from surgeon.display.registry import view_of
from surgeon.errors import UsageError


def fragment(result: object) -> str:
    """The HTML of a result for a notebook cell: style sheet and body, without a script.

    Raises UsageError for an unknown type of result.
    """
    found = _view(result)
    style = Markup(f"<style>{asset('results.css')}</style>")
    return element("div", concat((style, found.body(result, RenderContext()))), class_="surgeon")


def page(*results: object, title: str = "", command: str = "") -> Page:
    """Put results on one page, to be sent to others.

    It is one file: pictures, a JSON record of the same facts and a script that sorts its tables are inside, and nothing
    is loaded from elsewhere.

    Args:
        results: what `rewrite`, `edit`, `run`, `compare`, `check`, `explain`, `bench` and others return, rules.
        title: of the page; else told from the first result.
        command: what was run, to be named on it.

    Returns:
        The page, whose `save` writes it.

    Raises:
        UsageError: there is nothing to show, or something that no page knows.

    Examples:
        >>> import surgeon
        >>> same = surgeon.compare("notebooks/models/tiny_distilbert.onnx", "notebooks/models/tiny_distilbert.onnx")
        >>> page = surgeon.page(same, title="The same")
        >>> page.about, "PROVED" in page.html
        ('The same', True)
    """
    if not results:
        raise UsageError("There is nothing to show: give a result, as surgeon.rewrite returns one.")
    context, parts, data = RenderContext(is_full_page=True), [], list[dict[str, Any]]()
    for result in results:
        found = _view(result)
        parts.append(element("article", found.body(result, context)))
        data.append({"kind": found.kind, **_record(found.data(result))})
    return render_page(title or _view(results[0]).title(results[0]), parts, data, command)


def _record(data: Any) -> dict[str, Any]:
    return {"result": data}


def _view(result: object) -> Any:
    found = view_of(result)
    if found is None:
        raise UsageError(f"Nothing is known of how to show {type(result).__name__}: give what surgeon returned.")
    return found
