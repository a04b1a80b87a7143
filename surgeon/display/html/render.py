"""Shows results as a fragment for a notebook cell, or as a page."""

from collections.abc import Mapping, Sequence
from typing import Any

from surgeon.display.envelope import envelope
from surgeon.display.html.elements import Markup, concat, element
from surgeon.display.html.html_renderer import HtmlRenderer
from surgeon.display.html.page import Page, asset, render_page
from surgeon.display.registry import document_of
from surgeon.errors import UsageError


def fragment(result: object) -> str:
    """The HTML of a result for a notebook cell: style sheet and body, without a script.

    Raises UsageError for an unknown type of result.
    """
    style = Markup(f"<style>{asset('results.css')}</style>")
    return element("div", concat((style, HtmlRenderer().document(document_of(result)))), class_="surgeon")


def page(*results: object, title: str = "", command: str = "") -> Page:
    """Put results on one page, to be sent to others.

    It is one file, which loads nothing: pictures, a JSON record of the same facts and a script that sorts its tables
    are inside.

    Args:
        results: results of `rewrite`, `edit`, `run`, `compare`, `check`, `explain`, `bench` and others, or rules.
        title: of the page.  Default: the title of the first result.
        command: the command line, to be shown on it.

    Returns:
        The page, whose `save` writes it.

    Raises:
        UsageError: no result, or a result of an unknown type.

    Examples:
        >>> import surgeon
        >>> same = surgeon.compare("notebooks/models/tiny_distilbert.onnx", "notebooks/models/tiny_distilbert.onnx")
        >>> page = surgeon.page(same, title="The same")
        >>> page.about, "PROVED" in page.html
        ('The same', True)
    """
    if not results:
        raise UsageError("No result given. Give one or more, for example the report of surgeon.rewrite.")
    return page_of(results, envelope(results, command), title)


def page_of(results: Sequence[object], record: Mapping[str, Any], title: str = "") -> Page:
    """Results as one page.  record: their envelope."""
    documents = [document_of(result) for result in results]
    renderer = HtmlRenderer(is_full_page=True)
    parts = [element("article", renderer.document(document)) for document in documents]
    return render_page(title or documents[0].title, parts, record)
