"""The HTML elements of all pages; every text of a model is escaped by one function."""

import html
from collections.abc import Iterable
from typing import TypeAlias


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


HtmlContent: TypeAlias = "str | Iterable[HtmlContent]"
"""A text, which is escaped unless it is Markup, or a sequence of texts."""


def escape(text: str) -> Markup:
    """A text escaped for HTML; unprintable characters are spelled out."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)
    return Markup(html.escape(text))


def concat(content: HtmlContent) -> Markup:
    """The HTML of several texts and elements."""
    if isinstance(content, str):
        return content if isinstance(content, Markup) else escape(content)
    return Markup("".join(map(concat, content)))


def element(tag: str, content: HtmlContent = "", **attributes: str | None) -> Markup:
    """An element; attributes that are None are left out, `_` in a name becomes `-`, and a final `_` is dropped."""
    given = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
    attribute_text = "".join(f' {name}="{escape(value)}"' for name, value in given.items())
    return Markup(f"<{tag}{attribute_text}>{concat(content)}</{tag}>")
