"""The few parts that all pages are made of; what comes from a model goes through one function."""

import base64
import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from surgeon.display.pictures.svg import Picture
from surgeon.errors import UsageError

MOST_PICTURES = {True: 80, False: 8}  # on a page, and in a cell of a notebook


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


HtmlContent: TypeAlias = "str | Iterable[HtmlContent]"
"""A text, which is escaped unless it is Markup, or several."""


def escape(text: str) -> Markup:
    """Any text as HTML can hold it: a model's names are data, and what no screen shows is spelled out."""
    if not text.isprintable():
        text = "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)
    return Markup(html.escape(text))


def concat(content: HtmlContent) -> Markup:
    """One piece of HTML from texts and pieces."""
    if isinstance(content, str):
        return content if isinstance(content, Markup) else escape(content)
    return Markup("".join(map(concat, content)))


def element(tag: str, content: HtmlContent = "", **attributes: str | None) -> Markup:
    """An element; attributes that are None are left out, `_` in their names is `-`, and a last one is dropped."""
    given = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
    told = "".join(f' {name}="{escape(value)}"' for name, value in given.items())
    return Markup(f"<{tag}{told}>{concat(content)}</{tag}>")


def outcome_badge(outcome: str) -> Markup:
    """An outcome, which is told by its word and by a colour."""
    kind = outcome if outcome in ("proved", "failed", "unproved") else "other"
    return element("span", outcome.upper(), class_=f"badge {kind}")


def outcome_note(outcome: str, words: HtmlContent = "") -> Markup:
    """A paragraph that begins with an outcome."""
    return element("p", (outcome_badge(outcome), " ", words))


def code(text: str) -> Markup:
    """A name or a line of a program."""
    return element("code", text)


def preformatted(content: Iterable[str], label: str) -> Markup:
    """Lines as they stand, which scroll where they are long.  label: what a screen reader calls them."""
    return element("pre", concat("\n".join(content)), tabindex="0", role="group", aria_label=label)


def diff_lines(told: Iterable[str]) -> Markup:
    """Lines that went, with a minus, and lines that came, with a plus."""
    marked = (element("ins" if line.startswith("+") else "del", line) for line in told)
    return element("pre", Markup("\n".join(marked)), tabindex="0", role="group", aria_label="before and after")


def bullet_list(items: Iterable[HtmlContent]) -> Markup:
    """A list."""
    return element("ul", (element("li", item) for item in items))


def fields(pairs: Iterable[tuple[str, HtmlContent]]) -> Markup:
    """Names and what is said of each; a name that is empty goes on with the one before."""
    rows = []
    for name, said in pairs:
        if said:
            rows.append(concat((element("dt", name) if name else Markup(""), element("dd", said))))
    return element("dl", rows) if rows else Markup("")


def collapsible(title: HtmlContent, content: HtmlContent, *, is_open: bool = False) -> Markup:
    """What is unfolded where one clicks; without a script."""
    inside = concat((element("summary", title), concat(content)))
    return Markup(f"<details{' open' * is_open}>{inside}</details>")


def section(title: str, content: HtmlContent) -> Markup:
    """A heading and what stands under it; nothing where nothing does."""
    inside = concat(content)
    return element("section", (element("h2", title), inside)) if inside else Markup("")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table whose order is not that of its text.  value: the number that it is sorted by."""

    content: HtmlContent
    value: float


Row: TypeAlias = "Sequence[HtmlContent | Cell | int]"
"""What stands in one row of a table; a count is a cell of its own."""


def table(heads: Sequence[str], rows: Iterable[Row], caption: str) -> Markup:
    """A table; nothing without rows.  Numbers stand at the right.

    caption: what it is, for those who do not see where it stands.
    """
    told = list(rows)
    if not told:
        return Markup("")
    kinds = ["number" if isinstance(cell, (Cell, int)) else None for cell in told[0]]
    titles = zip(heads, kinds, strict=True)
    head = element("tr", (element("th", name, scope="col", class_=kind) for name, kind in titles))
    body = (element("tr", map(_cell, row)) for row in told)
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
    """What is written on: a page of its own, or a cell of a notebook, which has less room.

    pictures: how many it has so far.
    """

    is_full_page: bool = False
    pictures: int = field(default=0)

    def figure(self, draw: Callable[[], Picture], about: str) -> Markup:
        """A picture; where none can be drawn, why.  about: what is on it, for those who do not see it."""
        if self.pictures >= MOST_PICTURES[self.is_full_page]:
            return Markup("")
        try:
            picture = draw()
        except UsageError as refusal:
            return element("p", f"No picture: {refusal}", class_="faint")
        self.pictures += 1
        if self.is_full_page:  # a part of the page: names show under the pointer, and text can be searched for
            svg = picture.svg.replace("<svg ", f'<svg role="img" aria-label="{escape(about)}" ', 1)
            return element("figure", Markup(svg), tabindex="0")
        # In a notebook an image: viewers that take scripts out take SVG out as well, and leave images.
        source = base64.b64encode(picture.svg.encode()).decode("ascii")
        return element("figure", Markup(f'<img alt="{escape(about)}" src="data:image/svg+xml;base64,{source}">'))
