"""The HTML of latencies: a table, and a plot of the ratios with their intervals."""

import math

from surgeon.display.content.bench import PERCENTILES, bench_lines, percentile_title
from surgeon.display.html.elements import (
    Cell,
    HtmlContent,
    Markup,
    RenderContext,
    Row,
    code,
    concat,
    escape,
    fields,
    table,
)
from surgeon.display.pictures.svg import FAINT, INK, LINE, PAPER, Picture
from surgeon.display.registry import register_view
from surgeon.runtime.timing.latency import Bench, LatencyRatio
from surgeon.text import milliseconds_text, short_names

WIDTH, ROW, LEFT, RIGHT, TOP = 640.0, 30.0, 190.0, 110.0, 34.0
COLOURS = {"faster": "#17663f", "slower": "#a3271f"}


@register_view(Bench, "bench", lambda found: " and ".join(short_names([latency.name for latency in found.models])))
def bench_body(found: Bench, context: RenderContext) -> Markup:
    """The latencies of several models."""
    names = short_names([latency.name for latency in found.models])
    rows: list[Row] = []
    for place, (name, latency) in enumerate(zip(names, found.models, strict=True)):
        numbers = [latency.percentile(share) for share in PERCENTILES]
        row: list[HtmlContent | Cell] = [code(name), *(Cell(milliseconds_text(number), number) for number in numbers)]
        if place:
            ratio = found.ratios[place - 1]
            between = f"{ratio.low:.3f} to {ratio.high:.3f}"
            row += [Cell(f"{ratio.ratio:.3f}", ratio.ratio), Cell(between, ratio.low), code(ratio.verdict)]
        else:
            row += [Cell("", 1.0), Cell("", 1.0), code("")]
        rows.append(row)
    heads = ("ms", *map(percentile_title, PERCENTILES), "ratio", "95 % interval", "verdict")
    plot = context.figure(lambda: intervals(names[1:], found.ratios), "ratios with their 95 % intervals; 1 is equal")
    return concat((table(heads, rows, "Milliseconds of one run"), plot, fields(bench_lines(found))))


def intervals(names: list[str], ratios: tuple[LatencyRatio, ...]) -> Picture:
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
    return f'<text x="{x:.1f}" y="{y:g}" fill="{fill}" text-anchor="{anchor}">{escape(text)}</text>'
