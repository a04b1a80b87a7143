"""The HTML of a model summary."""

from collections.abc import Iterator
from pathlib import Path

from surgeon.display.content.inspection import header_lines, weights_text
from surgeon.display.html.elements import (
    Cell,
    HtmlContent,
    Markup,
    RenderContext,
    code,
    collapsible,
    concat,
    element,
    fields,
    section,
    table,
)
from surgeon.display.registry import register_view
from surgeon.targets.inspection.model_summary import Inspection, size_text
from surgeon.targets.inspection.outline import OutlineGroup
from surgeon.text import format_count, join_first

DEPTH, MAX = 3, 40  # of groups in groups; of one level


@register_view(Inspection, "inspect", lambda found: Path(found.path).name or "A model")
def inspection_body(found: Inspection, _: RenderContext) -> Markup:
    """The facts about one model."""
    signature = [(kind, code(name), text) for kind, values in _sides(found) for name, text in values.items()]
    ops = [(code(op), domain, n) for domain, counts in found.ops.items() for op, n in counts.items()]
    sizes = {
        name: found.inside.get(name, 0) + found.outside.get(name, 0)
        for name in {**found.inside, **found.outside}
    }
    weights = [(dtype, Cell(size_text(size), size)) for dtype, size in sizes.items()]
    unknown = [
        (code(item.op), item.count, item.why, join_first(item.places, len(item.places), item.count))
        for item in found.unknown
    ]
    functions = [(code(item.name), item.nodes, item.calls) for item in found.functions]
    return concat((
        fields(_head(found)),
        table(("side", "name", "type"), signature, "Inputs and outputs"),
        section("Nodes", table(("op", "domain", "nodes"), ops, "Nodes by op")),
        section("What it is made of", _outline(found.outline, DEPTH)),
        section("Weights", table(("dtype", "size"), weights, "Weights by dtype")),
        section("Functions", table(("function", "nodes", "calls"), functions, "Local functions")),
        section("Custom or unknown ops", table(("op", "nodes", "why", "at"), unknown, "Ops that no schema has")),
    ))


def _outline(group: OutlineGroup, depth: int) -> Markup:
    """The groups in a group, collapsed; the first of equal groups represents all."""
    shown = [item for item in group.items if isinstance(item, OutlineGroup)][: 1 if group.kind == "stack" else MAX]
    entries = []
    for item in shown:
        count = sum(1 for _ in item.nodes())
        times = f" × {len(item.items)}" if item.kind == "stack" else ""
        title = concat((code(item.label), times, f", {format_count(count, 'node')}"))
        inside = _outline(item, depth - 1) if depth else Markup("")
        entries.append(collapsible(title, inside) if inside else element("div", title))
    return concat(entries)


def _sides(found: Inspection) -> tuple[tuple[str, dict[str, str]], ...]:
    return ("input", found.inputs), ("output", found.outputs)


def _head(found: Inspection) -> Iterator[tuple[str, HtmlContent]]:
    yield "model", (code(found.path), f" ({size_text(found.file_size)})") if found.path else ""
    yield "IR", f"version {found.ir_version}{', made by ' + found.producer if found.producer else ''}"
    yield "opsets", ", ".join(f"{domain} {version}" for domain, version in found.opsets.items()) or "none"
    yield from header_lines(found)
    yield "nodes", f"{found.nodes:,}"
    yield "weights", weights_text(found)
    for item in found.files:
        state = "MISSING" if item.size is None else size_text(item.size)
        yield "", f"{item.location}: {size_text(item.used)} used of {state}"
