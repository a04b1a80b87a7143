"""The contents of a model as blocks: header, inputs and outputs, weights, nodes by op, and repeated parts."""

from collections.abc import Iterator

from surgeon.display.blocks import TIMES, Block, Document, Facts, Items, Note, Section, Span, Table, Text, lines_of
from surgeon.display.registry import file_name, reports
from surgeon.targets.inspection.model_summary import Inspection, size_text
from surgeon.targets.inspection.outline import OutlineGroup
from surgeon.text import format_count, join_first

LONGEST = 200  # characters of a header text on a screen
DEPTH, MAX_GROUPS = 3, 40  # of groups in groups; of one level
UNKNOWN = "custom or placeholder ops, and ops that onnx and ONNX Runtime do not have:"


@reports(Inspection, "inspect")
def document(found: Inspection) -> Document:
    """The facts about one model."""
    rows = list(_facts(found))
    details: list[Block] = [Facts(rows, most=len(rows))]
    for domain, ops in found.ops.items():
        counts = [(count, Span(op, "code")) for op, count in ops.items()]
        details.append(Table(f"Nodes by op of {domain}", ("nodes", domain), counts, most=len(counts)))
    functions = (f"{one.name}: {one.nodes:,} nodes, called {one.calls:,} times" for one in found.functions)
    details.append(Facts([("function", text) for text in functions], most=len(found.functions)))
    unknown = []
    for group in found.unknown:
        places = join_first(group.places, len(group.places), group.count)
        unknown.append(Span(f"{group.op} x{group.count:,} ({group.why}) at {places}", "warning"))
    details.append(Section(UNKNOWN, [Items(unknown, most=len(unknown))], folded=False))
    details.append(Section("modules", _outline(found.outline, DEPTH)))
    return Document(file_name(found.path, "A model"), details)


def _facts(found: Inspection) -> Iterator[tuple[str, Text]]:
    yield "model", (Span(found.path, "code"), f" ({size_text(found.file_size)})")
    yield "IR", f"version {found.ir_version}{', made by ' + found.producer if found.producer else ''}"
    yield "opsets", ", ".join(f"{domain} {version}" for domain, version in found.opsets.items()) or "none"
    for title, values in (("inputs", found.inputs), ("outputs", found.outputs)):
        yield from lines_of(title, ((Span(name, "code"), f": {text}") for name, text in values.items()))
    yield from header_lines(found)
    yield "weights", weights_text(found)
    for item in found.files:
        state = "MISSING" if item.size is None else size_text(item.size)
        text = f"{item.location}: {size_text(item.used)} used of {state}"
        yield "", Span(text, "bad") if item.size is None else text
    yield "nodes", f"{found.nodes:,}"


def _outline(group: OutlineGroup, depth: int) -> list[Block]:
    """The groups in a group, folded; the first of equal groups represents all."""
    most = 1 if group.kind == "stack" else MAX_GROUPS
    blocks: list[Block] = []
    for item in [item for item in group.items if isinstance(item, OutlineGroup)][:most]:
        times = (" ", TIMES, f" {len(item.items)}") if item.kind == "stack" else ""
        title = (Span(item.label, "code"), times, f", {format_count(sum(1 for _ in item.nodes()), 'node')}")
        inside = _outline(item, depth - 1) if depth else []
        blocks.append(Section(title, inside) if inside else Note(title))
    return blocks


def header_lines(found: Inspection) -> Iterator[tuple[str, str]]:
    """The header's texts by field, and the metadata by key; long texts are shortened."""
    for title, texts in (("about", found.about), ("metadata", found.metadata)):
        for place, (name, text) in enumerate(texts.items()):
            line = " ".join(text.split())
            more = f"... ({len(text):,} characters; --json has all)" if len(line) > LONGEST else ""
            yield "" if place else title, f"{name}: {line[:LONGEST]}{more}"


def weights_text(found: Inspection) -> str:
    parts = []
    for name, sizes in (("in the file", found.inside), ("in external files", found.outside)):
        if sizes:
            detail = ", ".join(f"{dtype} {size_text(size)}" for dtype, size in sizes.items())
            parts.append(f"{size_text(sum(sizes.values()))} {name} ({detail})")
    return f"{found.tensors:,} tensors: {'; '.join(parts)}" if parts else "none"
