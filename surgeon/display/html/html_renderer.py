"""Renders blocks as HTML: whole on a page, and the first of everything in a notebook cell, which has less room."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from surgeon.display.blocks import (
    Block,
    Cell,
    Code,
    Document,
    Facts,
    Figure,
    Items,
    Note,
    Number,
    Section,
    Table,
    Text,
    first_entries,
    first_items,
    rest_text,
    spans,
)
from surgeon.display.html.elements import Markup, concat, element, escape
from surgeon.errors import UsageError
from surgeon.text import and_more

MAX_PICTURES = {True: 80, False: 8}  # on a page, and in a notebook cell
MAX_SECTIONS = 12  # folded sections of a section, in a notebook cell
SCROLLS = {"tabindex": "0", "role": "group"}
ELEMENTS = {"code": "code", "strong": "b", "sign": ""}


@dataclass(slots=True)
class HtmlRenderer:
    """Renders documents for one page, or for one notebook cell."""

    is_full_page: bool = False
    """Whether it is a page."""
    pictures: int = field(default=0)
    """Number of pictures so far."""

    def document(self, document: Document) -> Markup:
        """A document: its subject and its summary, then its details."""
        head = element("p", element("b", text(document.headline))) if document.headline else ""
        done = (element("p", text(line), class_="done") for line in document.done)
        summary = Facts((*document.subject, *document.summary), most=1000)
        return concat((head, *done, self.block(summary), self.blocks(document.details)))

    def blocks(self, blocks: Sequence[Block]) -> Markup:
        """Several blocks in order."""
        folds = sum(isinstance(block, Section) and block.folded for block in blocks)
        if self.is_full_page or folds <= MAX_SECTIONS:
            return concat(map(self.block, blocks))
        seen, shown = 0, []
        for block in blocks:
            seen += isinstance(block, Section) and block.folded
            if seen <= MAX_SECTIONS or not isinstance(block, Section):
                shown.append(self.block(block))
        more = f"{and_more(folds - MAX_SECTIONS)}: surgeon.page(result) has all".lstrip()
        return concat((shown, element("p", more)))

    def block(self, block: Block) -> Markup:
        """One block; empty without content."""
        match block:
            case Section():
                return self._section(block)
            case Facts():
                return self._facts(block)
            case Table():
                return self._table(block)
            case Items():
                return self._items(block)
            case Note():
                return element("p", text(block.text), class_=block.tone or None) if block.text else Markup("")
            case Code():
                return code_lines(block)
            case Figure():
                return self._picture(block)

    def _section(self, block: Section) -> Markup:
        inside = self.blocks(block.blocks)
        if block.blocks and not inside:
            return inside
        title = text(f"{block.title[:1].upper()}{block.title[1:]}" if isinstance(block.title, str) else block.title)
        if block.folded:  # it unfolds on a click, without a script
            return element("details", (element("summary", title), inside))
        return element("section", (element("h2", title), inside))

    def _facts(self, block: Facts) -> Markup:
        rows, left = first_entries((row for row in block.rows if row[1]), self._room(block.most))
        cells = [(element("dt", text(label)) if label else "", element("dd", text(words))) for label, words in rows]
        return element("dl", (*cells, element("dd", rest_text(left, block)) if left else "")) if rows else Markup("")

    def _table(self, block: Table) -> Markup:
        rows, left = first_entries(block.rows, self._room(block.most))
        if not rows:
            return Markup("")
        kinds = ["number" if isinstance(cell, (Number, int)) else None for cell in rows[0]]
        titles = (
            element("th", name, scope="col", class_=kind) if name else element("td")
            for name, kind in zip(block.heads, kinds, strict=True)
        )
        body = (element("tr", map(_cell, row)) for row in rows)
        head = element("thead", element("tr", titles))
        inside = element("table", (element("caption", block.caption), head, element("tbody", body)))
        more = element("p", rest_text(left, block)) if left else ""
        return concat((element("div", inside, class_="wide", aria_label=block.caption, **SCROLLS), more))

    def _items(self, block: Items) -> Markup:
        items, left = first_items(block, self._room(block.most))
        shown = [element("li", (text(one.text), (element("div", text(line)) for line in one.lines))) for one in items]
        rest = [element("li", rest_text(left, block))] if left else []
        return element("ul", (*shown, *rest)) if shown or rest else Markup("")

    def _picture(self, block: Figure) -> Markup:
        """A picture with its nodes below it; the reason and the nodes if it cannot be drawn."""
        otherwise = self.blocks(block.otherwise)
        if self.pictures >= MAX_PICTURES[self.is_full_page]:
            return otherwise
        try:
            drawn = block.draw()
        except UsageError as refusal:
            return concat((element("p", f"No picture: {refusal}", class_="faint"), otherwise))
        self.pictures += 1
        nodes = element("details", (element("summary", "nodes"), otherwise)) if otherwise else ""
        return concat((self._figure(drawn.svg, block.about), nodes))

    def _figure(self, svg: str, about: str) -> Markup:
        """A drawn picture."""
        if self.is_full_page:  # inline: tooltips and text search work
            named = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(about)}" ', 1)
            return element("figure", Markup(named), tabindex="0")
        # An image in a notebook: viewers that remove scripts also remove inline SVG, but keep images.
        source = base64.b64encode(svg.encode()).decode("ascii")
        return element("figure", Markup(f'<img alt="{escape(about)}" src="data:image/svg+xml;base64,{source}">'))

    def _room(self, most: int) -> float:
        return inf if self.is_full_page else most


def text(words: Text) -> Markup:
    """Text with its roles; advice on the command line is left out."""
    return concat(_span(part, role) for part, role in spans(words) if role != "shell")


def _span(words: str, role: str) -> Markup:
    if role.startswith("outcome "):
        name = role.removeprefix("outcome ")
        return element("span", words, class_=f"badge {name if name in ('proved', 'failed', 'unproved') else 'other'}")
    tag = ELEMENTS.get(role, "span")
    return element(tag, words, class_=role if tag == "span" else None) if role and tag else escape(words)


def _cell(cell: Cell) -> Markup:
    if isinstance(cell, int):
        cell = Number(f"{cell:,}", cell)
    if isinstance(cell, Number):
        return element("td", text(cell.text), data_value=repr(float(cell.value)), class_="number")
    return element("td", text(cell))


def code_lines(block: Code) -> Markup:
    """Preformatted lines, which scroll if they are long."""
    marks = {"+": "ins", "-": "del"} if block.language == "diff" else {}
    shown = [
        element("mark" if place == block.marked else marks[line[:1]], line)
        if place == block.marked or line[:1] in marks
        else escape(line)
        for place, line in enumerate(block.lines, 1)
    ]
    return element("pre", Markup("\n".join(shown)), aria_label=block.label, **SCROLLS) if shown else Markup("")
