"""Renders diagrams as SVG."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surgeon.display.pictures.diagram import Box, Diagram
from surgeon.display.pictures.graph_layout import GraphLayout, arrange
from surgeon.errors import UsageError
from surgeon.file.io.atomic_file import write_text
from surgeon.text import format_count

SANS = "Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
TITLE, SMALL = 13.0, 11.0  # font sizes in pixels
BOLD_ADVANCE, MONO_ADVANCE = 0.69, 0.62  # advance of a character by font size: bold sans (maximum), monospace
HEAD, ROW, PAD, RISE, MARGIN = 24.0, 15.0, 10.0, 52.0, 18.0
WIDEST = 1000.0  # pixels of panels side by side; wider panels are stacked
PAPER, FRAME, INK, FAINT, LINE = "#fbfcfd", "#d0d7de", "#1f2933", "#5b6875", "#8493a3"
MARK = "#d1242f"  # around a mismatch
HEADS = {"onnx": "#41566b", "runtime": "#12708f", "function": "#6b4aa8", "foreign": "#b3500b"}
PILLS = {  # fill, stroke
    "input": ("#e4f1e7", "#4b8a5d"),
    "output": ("#e5edf8", "#4f78ab"),
    "outside": ("#f1f3f5", "#9aa7b3"),
    "constant": ("#f1f3f5", "#9aa7b3"),
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn graph."""

    svg: str
    """The text of the file."""
    about: str
    """A description in a few words."""

    def _repr_svg_(self) -> str:
        """The output of a notebook cell."""
        return self.svg

    def save(self, path: "str | os.PathLike[str]") -> Path:
        """Write the picture to an .svg file and return its path.  Raises UsageError if that fails."""
        require_svg(path)
        try:
            write_text(path, self.svg)
        except OSError as error:
            raise UsageError(f"The picture {path} cannot be written ({error.strerror}): name another file.") from None
        return Path(path)

    def __repr__(self) -> str:
        return f"<Picture: {self.about}>"


def require_svg(path: "str | os.PathLike[str]") -> None:
    """Raise UsageError for a path that does not end in .svg."""
    if Path(path).suffix.lower() != ".svg":
        raise UsageError(f"Pictures are written as SVG: give a name that ends in .svg in place of {path}.")


def paint(contents: Sequence[Diagram]) -> Picture:
    """Draw graphs side by side if they fit, else one above the other."""
    panels = [_Panel(content) for content in contents]
    across = sum(panel.width for panel in panels) + MARGIN * (len(panels) - 1) <= WIDEST
    parts, x, y = [], 0.0, 0.0
    height = max(panel.height for panel in panels)
    width = max(panel.width for panel in panels)
    for panel in panels:
        parts.append(panel.svg(x, y, panel.width if across else width, height if across else panel.height))
        if across:
            x += panel.width + MARGIN
        else:
            y += panel.height + MARGIN
    total = (x - MARGIN, height) if across else (width, y - MARGIN)
    size = f"{_number(total[0] + 2)} {_number(total[1] + 2)}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {size}" width="{_number(total[0] + 2)}" '
        f'height="{_number(total[1] + 2)}" style="max-width: 100%" font-family="{SANS}" font-size="{_number(TITLE)}">'
    )
    about = ", ".join(" ".join(filter(None, (item.title, format_count(item.nodes, "node")))) for item in contents)
    return Picture("\n".join([head, *parts, "</svg>\n"]), about)


class _Panel:
    """One graph on its own light background."""

    def __init__(self, content: Diagram) -> None:
        self.content = content
        self.sizes = [_size(box) for box in content.boxes]
        self.outlets: list[list[str]] = [[] for _ in content.boxes]
        labels = {edge.tensor: edge.label for edge in content.edges}
        for edge in content.edges:
            if edge.tensor not in self.outlets[edge.source]:
                self.outlets[edge.source].append(edge.tensor)
        self.spread = [
            max(16.0, *(_text_width(labels[name], SMALL) + 14 for name in names), 0.0) for names in self.outlets
        ]
        slots = [
            max(size[0], spread * len(names))
            for size, spread, names in zip(self.sizes, self.spread, self.outlets, strict=True)
        ]
        self.layout: GraphLayout = arrange(slots, [(edge.source, edge.target) for edge in content.edges])
        self._sort_outlets()
        self.top = MARGIN + (HEAD if content.title else 0.0)
        self.tops, self.heights, y = [], [], self.top
        for layer in self.layout.layers:
            self.tops.append(y)
            self.heights.append(max((self.sizes[slot][1] for slot in layer if slot < len(slots)), default=0.0))
            y += self.heights[-1] + RISE
        self.level = {slot: level for level, layer in enumerate(self.layout.layers) for slot in layer}
        right = [self.layout.x[place] + slots[place] / 2 for place in range(len(slots))]
        bends = [x + 8 for x in self.layout.x[len(slots) :]]
        self.inner = max((*right, *bends), default=0.0)
        self.width = max(self.inner, _text_width(content.title, TITLE, BOLD_ADVANCE)) + 2 * MARGIN
        self.height = y - RISE + MARGIN

    def _sort_outlets(self) -> None:
        """Order the tensors of each node by the position of their consumers, to avoid crossings."""
        goals: dict[str, list[float]] = {}
        for edge in self.content.edges:
            goals.setdefault(edge.tensor, []).append(self.layout.x[self.layout.paths[edge.source, edge.target][1]])
        for names in self.outlets:
            names.sort(key=lambda name: sum(goals[name]) / len(goals[name]))

    def svg(self, x: float, y: float, width: float, height: float) -> str:
        """The panel at a position and size."""
        shift = (width - self.inner) / 2
        lines = [
            f'<g transform="translate({_number(x)} {_number(y)})">',
            f'<rect width="{_number(width)}" height="{_number(height)}" rx="8" fill="{PAPER}" stroke="{FRAME}"/>',
        ]
        if self.content.title:
            title = _text(MARGIN, MARGIN + 9, self.content.title, FAINT, weight="bold", anchor="start")
            lines.append(title)
        lines.append(f'<g transform="translate({_number(shift)} 0)">')
        lines += self._edge_elements()
        lines += [self._box(place, box) for place, box in enumerate(self.content.boxes)]
        return "\n".join([*lines, "</g>", "</g>"])

    def _edge_elements(self) -> list[str]:
        entries = self._entry_positions()
        curves, labels, labelled = [], [], set()
        for place, edge in enumerate(self.content.edges):
            path = self.layout.paths[edge.source, edge.target]
            x, y = self._outlet(edge.source, edge.tensor), self._bottom(edge.source)
            points = [(x, y), (x, y + 22 if edge.label else y)]
            for slot in path[1:-1]:
                top = self.tops[self.level[slot]]
                points += [(self.layout.x[slot], top), (self.layout.x[slot], top + self.heights[self.level[slot]])]
            points.append((entries[place], self._top(edge.target) - 6))
            curves.append(_curve(points))
            if edge.label and edge.tensor not in labelled:
                labelled.add(edge.tensor)
                labels.append(_label(x, y + 18, edge.label, edge.tensor))
        return curves + labels

    def _entry_positions(self) -> dict[int, float]:
        """The x position at which each edge enters its box: ordered by where edges come from, to avoid crossings."""
        arriving: dict[int, list[tuple[float, int]]] = {}
        for place, edge in enumerate(self.content.edges):
            before = self.layout.paths[edge.source, edge.target][-2]
            x = self._outlet(edge.source, edge.tensor) if before == edge.source else self.layout.x[before]
            arriving.setdefault(edge.target, []).append((x, place))
        found = {}
        for target, edges in arriving.items():
            step = min(22.0, (self.sizes[target][0] - 16) / len(edges))
            for number, (_, place) in enumerate(sorted(edges)):
                found[place] = self.layout.x[target] + (number - (len(edges) - 1) / 2) * step
        return found

    def _outlet(self, source: int, tensor: str) -> float:
        names = self.outlets[source]
        return self.layout.x[source] + (names.index(tensor) - (len(names) - 1) / 2) * self.spread[source]

    def _top(self, place: int) -> float:
        level = self.level[place]
        return self.tops[level] + (self.heights[level] - self.sizes[place][1]) / 2

    def _bottom(self, place: int) -> float:
        return self._top(place) + self.sizes[place][1]

    def _box(self, place: int, box: Box) -> str:
        width, height = self.sizes[place]
        left, top = self.layout.x[place] - width / 2, self._top(place)
        wide = f'width="{_number(width)}"'
        shape = f'x="{_number(left)}" y="{_number(top)}" {wide}'
        lines = ["<g>"]
        if box.hint:
            lines.append(f"<title>{_escaped(box.hint)}</title>")
        middle = left + width / 2
        if box.kind in PILLS:
            fill, stroke = PILLS[box.kind]
            dashes = ' stroke-dasharray="4 3"' if box.kind in ("outside", "constant") else ""
            radius = _number(height / 2)
            lines.append(
                f'<rect {shape} height="{_number(height)}" rx="{radius}" fill="{fill}" stroke="{stroke}"{dashes}/>'
            )
            lines.append(_text(middle, top + 16, box.title, INK, weight="bold"))
            lines += [_text(middle, top + 30, row, fill=FAINT, size=SMALL, family=MONO) for row in box.rows]
            return "\n".join([*lines, "</g>"])
        colour, head = HEADS[box.kind], _head(box)
        if box.is_marked:
            around = f'x="{_number(left - 4)}" y="{_number(top - 4)}" width="{_number(width + 8)}"'
            size = f'height="{_number(height + 8)}" rx="8"'
            lines.append(f'<rect {around} {size} fill="none" stroke="{MARK}" stroke-width="3"/>')
        lines.append(f'<rect {shape} height="{_number(height)}" rx="5" fill="#ffffff" stroke="{colour}"/>')
        lines.append(f'<rect {shape} height="{_number(head)}" rx="5" fill="{colour}"/>')
        if box.rows:  # square lower corners of the head
            lines.append(f'<rect x="{_number(left)}" y="{_number(top + head - 6)}" {wide} height="6" fill="{colour}"/>')
        if box.domain:
            lines.append(_text(middle, top + 14, box.domain, fill="#ffffff", size=SMALL - 1, opacity=0.85))
        lines.append(_text(middle, top + head - 7.5, box.title, "#ffffff", weight="bold"))
        for number, row in enumerate(box.rows):
            baseline = top + head + (number + 1) * ROW
            lines.append(_text(left + PAD, baseline, row, fill=INK, size=SMALL, family=MONO, anchor="start"))
        return "\n".join([*lines, "</g>"])


def _head(box: Box) -> float:
    return HEAD + (12.0 if box.domain else 0.0)


def _size(box: Box) -> tuple[float, float]:
    """The width and height of a box in pixels."""
    rows = max((_text_width(row, SMALL) for row in box.rows), default=0.0)
    title = max(_text_width(box.title, TITLE, BOLD_ADVANCE), _text_width(box.domain, SMALL - 1, MONO_ADVANCE))
    if box.kind in PILLS:
        return max(title, rows) + 3 * PAD, 38.0 if box.rows else 24.0
    return max(title, rows, 40.0) + 2 * PAD, _head(box) + (len(box.rows) * ROW + 7 if box.rows else 0.0)


def _text_width(text: str, size: float, advance: float = MONO_ADVANCE) -> float:
    return len(text) * size * advance


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """A line with an arrowhead: alternately straight and curved, and vertical at every point."""
    (x, y), *rest = points
    path = f"M{_number(x)} {_number(y)}"
    for number, (to_x, to_y) in enumerate(rest):
        if number % 2 == 0:  # beside the label, or through a layer
            path += f"V{_number(to_y)}"
        else:
            middle = _number((y + to_y) / 2)
            path += f"C{_number(x)} {middle} {_number(to_x)} {middle} {_number(to_x)} {_number(to_y)}"
        x, y = to_x, to_y
    head = f"M{_number(x - 4)} {_number(y - 1)}h8l-4 7z"
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.3"/><path d="{head}" fill="{LINE}"/>'


def _label(x: float, y: float, text: str, tensor: str) -> str:
    width = _text_width(text, SMALL) + 4
    place = f'x="{_number(x - width / 2)}" y="{_number(y - 10)}"'
    sheet = f'<rect {place} width="{_number(width)}" height="13" fill="{PAPER}"/>'
    return f"<g><title>{_escaped(tensor)}</title>{sheet}{_text(x, y, text, fill=FAINT, size=SMALL, family=MONO)}</g>"


def _text(
    x: float,
    y: float,
    text: str,
    fill: str,
    size: float = TITLE,
    *,
    family: str = "",
    weight: str = "",
    anchor: str = "middle",
    opacity: float = 1.0,
) -> str:
    more = {"font-family": family, "font-weight": weight, "opacity": "" if opacity == 1 else str(opacity)}
    extra = "".join(f' {key}="{value}"' for key, value in more.items() if value)
    place = f'x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}" text-anchor="{anchor}" fill="{fill}"'
    return f"<text {place}{extra}>{_escaped(text)}</text>"


def _escaped(text: str) -> str:
    """A text escaped for XML, without control characters."""
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _number(value: float) -> str:
    """A length rounded to a tenth of a pixel, the same on all machines."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")
