"""The findings of a target check as blocks, and what the target's own runtime says."""

from collections.abc import Iterator, Sequence

from surgeon.display.blocks import Block, Document, Item, Items, Note, Span
from surgeon.display.registry import reports
from surgeon.target_registry import target_of
from surgeon.targets.lint.finding import Diagnostic, Findings, RuntimeResult
from surgeon.text import format_count, join_first

SHOWN_OPS, SHOWN_NODES = 4, 5  # per cause


@reports(Findings, "check")
def document(found: Findings) -> Document:
    """The findings of a target check, one cause per entry, and a summary line."""
    target, causes = target_of(found.target).title, []
    for items in group_by_cause(found):
        title, *lines = cause_lines(items)
        shown = [Span(line, "help") if line.startswith("help: ") else line for line in lines]
        causes.append(Item(Span(title, "bad" if items[0].stops else "warning"), shown))
    words, is_good = summary_line(found, found.runtime, target)
    runtime = runtime_lines(found.runtime, target) if found.runtime is not None else ()
    every = sum(1 + len(cause.lines) for cause in causes)
    details: list[Block] = [Items(causes, most=every), *map(Note, runtime), Note(words, "good" if is_good else "bad")]
    return Document(found.model or "What keeps a model from running", details)


def runtime_lines(runtime: RuntimeResult, target: str) -> Iterator[str]:
    """The results of a target's own runtime."""
    if not runtime.title:
        yield f"{target} is told {runtime.silence}."
        return
    part = "" if runtime.is_whole else "; it could not look behind all that it refuses"
    yield f"As {runtime.title} reads it: {runtime.layers:,} layer{'s' * (runtime.layers != 1)}{part}."
    if runtime.engine:
        sizes = ", ".join(f"{name}={':'.join(map(str, dict.fromkeys(ends)))}" for name, ends in runtime.sizes.items())
        with_sizes = f" with {sizes}" if sizes else ""
        yield (
            f"It builds an engine for {runtime.device}{with_sizes}: {runtime.engine / 1e6:,.1f} MB, "
            f"{runtime.seconds:.1f} s of processor time."
        )


def is_undecided(found: Sequence[Diagnostic], runtime: RuntimeResult | None) -> bool:
    """Whether the runtime gave no answer, and nothing else stops the model."""
    end = "" if runtime is None else runtime.end
    return bool(end) and all(item.reason == end for item in found if item.stops)


def summary_line(found: Sequence[Diagnostic], runtime: RuntimeResult | None, target: str) -> tuple[str, bool]:
    """The summary of a check, and whether the model runs."""
    count = sum(items[0].stops for items in group_by_cause(found))
    if is_undecided(found, runtime):
        return f"Whether {target} runs this model is not told.", False
    if count:
        return f"{target} cannot run this model: {format_count(count, 'thing')} to mend.", False
    return f"{target} has all that this model needs, as far as can be told.", True


def group_by_cause(found: Sequence[Diagnostic]) -> list[list[Diagnostic]]:
    """Findings grouped by cause: several ops with the same text, unless a rule helps only one of them."""
    groups: dict[object, list[Diagnostic]] = {}
    for item in found:
        has_rule = any(text.startswith("rule ") for text in item.helps)
        key = id(item) if has_rule or not item.op or item.kind == "opset" else (item.kind, item.reason, item.stops)
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def cause_lines(items: Sequence[Diagnostic]) -> Iterator[str]:
    """One cause, line by line.  items: its findings, one per op."""
    first = items[0]
    ops = [f"{item.op or ''}{f' x{item.count:,}' if item.count > 1 else ''}".strip() for item in items]
    named = join_first(ops, SHOWN_OPS)
    yield f"{named}: {first.reason}" if first.op else f"{first.reason}{f' ({ops[0]})' if ops[0] else ''}"
    if first.link and first.chain and len(items) == 1:
        yield f"link: {first.chain}"
    nodes = [name for item in items for name in item.nodes]
    if nodes:
        yield f"at: {join_first(nodes, SHOWN_NODES, sum(item.count for item in items))}"
    if first.came_from:
        yield f"from: {first.came_from}"
    common = [text for text in first.helps if all(text in item.helps for item in items)]
    yield from (f"help: {text}" for text in common or first.helps)
