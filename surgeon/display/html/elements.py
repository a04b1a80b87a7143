"""The HTML elements of all pages; every text of a model is escaped by one function."""

import base64
import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from surgeon.display.pictures.svg import Picture
from surgeon.errors import UsageError

MAX_PICTURES = {True: 80, False: 8}  # on a page, and in a notebook cell


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


def outcome_badge(outcome: str) -> Markup:
    """An outcome as a coloured word."""
    kind = outcome if outcome in ("proved", "failed", "unproved") else "other"
    return element("span", outcome.upper(), class_=f"badge {kind}")


def outcome_note(outcome: str, words: HtmlContent = "") -> Markup:
    """A paragraph that starts with an outcome."""
    return element("p", (outcome_badge(outcome), " ", words))


def code(text: str) -> Markup:
    """A name, or a line of code."""
    return element("code", text)


def preformatted(content: Iterable[str], label: str) -> Markup:
    """Preformatted lines, which scroll if they are long.  label: for screen readers."""
    return element("pre", concat("\n".join(content)), tabindex="0", role="group", aria_label=label)


def diff_lines(lines: Iterable[str]) -> Markup:
    """Removed lines, which start with a minus, and added lines, which start with a plus."""
    marked = (element("ins" if line.startswith("+") else "del", line) for line in lines)
    return element("pre", Markup("\n".join(marked)), tabindex="0", role="group", aria_label="before and after")


def bullet_list(items: Iterable[HtmlContent]) -> Markup:
    """A list."""
    return element("ul", (element("li", item) for item in items))


def fields(pairs: Iterable[tuple[str, HtmlContent]]) -> Markup:
    """Names with their descriptions; an empty name continues the one before."""
    rows = []
    for name, description in pairs:
        if description:
            rows.append(concat((element("dt", name) if name else Markup(""), element("dd", description))))
    return element("dl", rows) if rows else Markup("")


def collapsible(title: HtmlContent, content: HtmlContent, *, is_open: bool = False) -> Markup:
    """Content that unfolds on a click, without a script."""
    inside = concat((element("summary", title), concat(content)))
    return Markup(f"<details{' open' * is_open}>{inside}</details>")


def section(title: str, content: HtmlContent) -> Markup:
    """A heading with its content; nothing without content."""
    inside = concat(content)
    return element("section", (element("h2", title), inside)) if inside else Markup("")


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell that is sorted by a number."""

    content: HtmlContent
    """The content of the cell."""
    value: float
    """The number for sorting."""


Row: TypeAlias = "Sequence[HtmlContent | Cell | int]"
"""The cells of a table row; an integer is a cell too."""


def table(heads: Sequence[str], rows: Iterable[Row], caption: str) -> Markup:
    """A table, with numbers aligned right; nothing without rows.  caption: a description for screen readers."""
    all_rows = list(rows)
    if not all_rows:
        return Markup("")
    kinds = ["number" if isinstance(cell, (Cell, int)) else None for cell in all_rows[0]]
    titles = zip(heads, kinds, strict=True)
    head = element("tr", (element("th", name, scope="col", class_=kind) for name, kind in titles))
    body = (element("tr", map(_cell, row)) for row in all_rows)
    inside = (element("caption", caption), element("thead", head), element("tbody", body))
    return element("div", element("table", inside), class_="wide", tabindex="0", role="group", aria_label=caption)


def _cell(cell: "HtmlContent | Cell | int") -> Markup:
    if isinstance(cell, int):
        cell = Cell(f"{cell:,}", cell)
    if isinstance(cell, Cell):
        return element("td", cell.content, data_value=repr(float(cell.value)), class_="number")
    return element("td", cell)


@dataclass(slots=True)
class RenderContext:
    """The medium of the output: a page, or a notebook cell, which has less room."""

    is_full_page: bool = False
    """Whether it is a page."""
    pictures: int = field(default=0)
    """Number of pictures so far."""

    def figure(self, draw: Callable[[], Picture], about: str) -> Markup:
        """A picture, or the reason why it cannot be drawn.  about: a description for screen readers."""
        if self.pictures >= MAX_PICTURES[self.is_full_page]:
            return Markup("")
        try:
            picture = draw()
        except UsageError as refusal:
            return element("p", f"No picture: {refusal}", class_="faint")
        self.pictures += 1
        if self.is_full_page:  # inline: tooltips and text search work
            svg = picture.svg.replace("<svg ", f'<svg role="img" aria-label="{escape(about)}" ', 1)
            return element("figure", Markup(svg), tabindex="0")
        # An image in a notebook: viewers that remove scripts also remove inline SVG, but keep images.
        source = base64.b64encode(picture.svg.encode()).decode("ascii")
        return element("figure", Markup(f'<img alt="{escape(about)}" src="data:image/svg+xml;base64,{source}">'))
