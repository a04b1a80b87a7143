"""The findings of a target check as blocks: a line per problem, the remedies, and which parser or tables decided."""

from collections.abc import Iterator, Sequence

from surgeon.display.blocks import Document, Item, Items, Section, Span, Text, first_entries, lines_of
from surgeon.display.registry import file_name, reports
from surgeon.target_registry import target_of
from surgeon.targets.lint.finding import FOR_ALL, Diagnostic, Findings, RuntimeResult
from surgeon.text import and_more, format_count, join_first

SHOWN_OPS, SHOWN_NODES = 4, 5  # of one cause
MAX_LINES, MAX_NODES, MAX_ADVICE = 8, 2, 3  # of a summary: lines, nodes of one cause, causes that do not stop the model


@reports(Findings, "check")
def document(found: Findings) -> Document:
    """The findings of a target check."""
    target, causes = target_of(found.target).title, group_by_cause(found)
    stopping = [items for items in causes if items[0].stops]
    advice, left = first_entries([items for items in causes if not items[0].stops], MAX_ADVICE)
    deciding = [*runtime_lines(found.runtime, target)] if found.runtime is not None else []
    shown = [*stopping, *advice]
    room = MAX_LINES - 2 - len(deciding) - bool(left)
    rows = [row for items in shown for row in _cause_rows(items, max(1, room // max(1, len(shown)) - 1))]
    rows += [("", and_more(left, "remarks").lstrip()), *lines_of("note", deciding)]
    outcome, words = _answer(found, len(stopping), target)
    last = outcome, (words, Span("; details: -v", "shell") if causes else "")
    whole = [Item(_toned(items, _title(items, SHOWN_NODES)), [*_detail_lines(items)]) for items in causes]
    details = [Section("findings", [Items(whole, most=sum(1 + len(one.lines) for one in whole))])]
    headline = f"{file_name(found.model, 'model in memory')}  {format_count(found.nodes, 'node')}; target: {target}"
    return Document(found.model or "A check", details, summary=[*rows, last], headline=headline)


def _answer(found: Findings, problems: int, target: str) -> tuple[Span, str]:
    """The outcome of a check, and the number of problems."""
    if found.is_undecided:
        return Span("UNKNOWN", "outcome unchecked"), f"{target} did not say whether it can run this model"
    if problems:
        count = format_count(problems, "problem")
        return Span("BLOCKED", "outcome blocked"), f"{target} cannot run this model: {count}"
    return Span("OK", "outcome proved"), f"no problems found for {target}"


def _cause_rows(items: Sequence[Diagnostic], most: int) -> Iterator[tuple[Text, Text]]:
    """A cause in one line, and the best remedies.  most: remedies."""
    yield "stops" if items[0].stops else "advice", _toned(items, _title(items, MAX_NODES))
    yield from lines_of("help", (Span(text, "help") for text in _helps(items)[:most]))


def _toned(items: Sequence[Diagnostic], text: str) -> Span:
    return Span(text, "bad" if items[0].stops else "warning")


def runtime_lines(runtime: RuntimeResult, target: str) -> Iterator[str]:
    """The target's own runtime or the tables that decided."""
    if not runtime.title:
        yield runtime.silence
        return
    part = "" if runtime.is_whole else "; it did not reach the nodes after a refused one"
    yield f"{runtime.title} parsed the model into {format_count(runtime.layers, 'layer')}{part}"
    if runtime.engine:
        sizes = ", ".join(f"{name}={':'.join(map(str, dict.fromkeys(ends)))}" for name, ends in runtime.sizes.items())
        with_sizes = f" with {sizes}" if sizes else ""
        size, seconds = f"{runtime.engine / 1e6:,.1f} MB", f"{runtime.seconds:.1f} s of processor time"
        yield f"it builds an engine for {runtime.device}{with_sizes}: {size}, {seconds}"


def group_by_cause(found: Sequence[Diagnostic]) -> list[list[Diagnostic]]:
    """Findings grouped by cause: several ops with the same text, unless a rule helps only one of them."""
    groups: dict[object, list[Diagnostic]] = {}
    for item in found:
        has_rule = any(text.startswith("rule ") for text in item.helps)
        is_one = has_rule and not any(text.startswith(FOR_ALL) for text in item.helps)
        key = id(item) if is_one or not item.op or item.kind == "opset" else (item.kind, item.reason, item.stops)
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def _title(items: Sequence[Diagnostic], most: int) -> str:
    """A cause in one line: ops, nodes, their line of code in a summary, and the reason.  most: nodes that are named."""
    first, count = items[0], sum(item.count for item in items)
    nodes = [name for item in items for name in item.nodes]
    where = "" if count < 2 else format_count(count, "node") if first.op else f"{count:,}"
    names = join_first(nodes, most, count) if nodes else ""
    origin = f"; from {first.came_from.partition(': ')[0]}" if first.came_from and most == MAX_NODES else ""
    ops = join_first([item.op for item in items], SHOWN_OPS)
    inside = f"{': '.join(filter(None, (where, names)))}{origin}"
    ops += f" ({inside})" if inside else ""
    return f"{ops}: {first.reason}" if first.op else f"{first.reason} ({inside})" if inside else first.reason


def _detail_lines(items: Sequence[Diagnostic]) -> Iterator[Text]:
    """The missing link, the line of the program, and all remedies of a cause."""
    first = items[0]
    if first.link and first.chain and len(items) == 1:
        yield f"link: {first.chain}"
    if first.came_from:
        yield f"from: {first.came_from}"
    yield from (Span(f"help: {text}", "help") for text in _helps(items))


def _helps(items: Sequence[Diagnostic]) -> list[str]:
    """The remedies of all findings of a cause, or of the first if they share none."""
    common = [text for text in items[0].helps if all(text in item.helps for item in items)]
    return common or items[0].helps
