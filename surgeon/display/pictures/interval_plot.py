"""Draws the ratios of latencies with their intervals."""

import html
import math
from collections.abc import Sequence

from surgeon.display.pictures.svg import FAINT, INK, LINE, PAPER, Picture
from surgeon.runtime.timing.latency import LatencyRatio

WIDTH, ROW, LEFT, RIGHT, TOP = 640.0, 30.0, 190.0, 110.0, 34.0
COLOURS = {"faster": "#17663f", "slower": "#a3271f"}


def interval_plot(names: Sequence[str], ratios: Sequence[LatencyRatio]) -> Picture:
    """Ratios as points with their intervals, on a logarithmic scale around 1."""
    ends = [end for ratio in ratios for end in (ratio.low, ratio.high) if 0 < end < math.inf]
    reach = max([math.log(1.1), *(abs(math.log(end)) for end in ends)]) * 1.1
    height = TOP + ROW * len(ratios) + 30

    def at(ratio: float) -> float:
        share = (math.log(min(max(ratio, math.exp(-reach)), math.exp(reach))) + reach) / (2 * reach)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}" '
        f'height="{height:g}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{WIDTH:g}" height="{height:g}" rx="8" fill="{PAPER}"/>',
        f'<line x1="{at(1):.1f}" x2="{at(1):.1f}" y1="{TOP - 8:g}" y2="{height - 26:g}" stroke="{LINE}"/>',
        _text(at(1), height - 10, "1, as fast", fill=FAINT, anchor="middle"),
        _text(LEFT, height - 10, "faster", fill=FAINT, anchor="start"),
        _text(WIDTH - RIGHT, height - 10, "slower", fill=FAINT, anchor="end"),
    ]
    for place, (name, ratio) in enumerate(zip(names, ratios, strict=True)):
        y, colour = TOP + ROW * (place + 0.5), COLOURS.get(ratio.verdict, INK)
        ends_at = f'x1="{at(ratio.low):.1f}" x2="{at(ratio.high):.1f}"'
        parts.append(f'<line {ends_at} y1="{y:g}" y2="{y:g}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<circle cx="{at(ratio.ratio):.1f}" cy="{y:g}" r="5" fill="{colour}"/>')
        parts.append(_text(LEFT - 12, y + 4, name if len(name) < 26 else f"…{name[-24:]}", fill=INK, anchor="end"))
        parts.append(_text(WIDTH - RIGHT + 12, y + 4, f"{ratio.ratio:.3f}", fill=INK, anchor="start"))
    return Picture("\n".join([*parts, "</svg>\n"]), "ratios")


def _text(x: float, y: float, text: str, fill: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:g}" fill="{fill}" text-anchor="{anchor}">{html.escape(text)}</text>'
