"""A renderer outside of the engine: reports in Markdown.

It imports the blocks, and no module of surgeon knows of it: its package names it in the group `surgeon.renderers`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from surgeon.display import blocks
from surgeon.display.blocks import Block, Document, Item, Number, Text, plain_text

SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def text(words: "Text | Number | int") -> str:
    """A text on one line, in which nothing is markup."""
    plain = str(words) if isinstance(words, int) else plain_text(words.text if isinstance(words, Number) else words)
    return SPECIAL.sub(r"\\\1", " ".join(plain.split()))


def lines(shown: Iterable[Block], level: int) -> Iterator[str]:
    """The blocks as lines of Markdown."""
    for block in shown:
        match block:
            case blocks.Section():
                yield from (f"{'#' * level} {text(block.title)}", "", *lines(block.blocks, min(level + 1, 6)))
            case blocks.Facts():
                yield from (f"- **{text(label) or '…'}** {text(words)}" for label, words in block.rows if words)
            case blocks.Items():
                items = [item if isinstance(item, Item) else Item(item) for item in block.items]
                yield from (f"- {'; '.join(map(text, (item.text, *item.lines)))}" for item in items)
            case blocks.Table():
                yield f"| {' | '.join(map(text, block.heads))} |"
                yield f"|{' --- |' * len(block.heads)}"
                yield from (f"| {' | '.join(map(text, row))} |" for row in block.rows)
            case blocks.Note():
                yield text(block.text)
            case blocks.Code():
                yield from (f"    {line}" for line in block.lines)
            case blocks.Figure():
                yield from lines(block.otherwise, level)
        yield ""


class Markdown:
    """Reports in Markdown."""

    first = "<!-- surgeon -->\n"

    def render(self, documents: Sequence[Document]) -> str:
        """A section for each document: its summary, and its details."""
        shown = [blocks.Section(one.title, (*blocks.summary_blocks(one), *one.details)) for one in documents]
        return self.first + "\n".join(lines(shown, 1))


MARKDOWN = Markdown()
