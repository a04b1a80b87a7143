"""The matrix as a Markdown table: a row for each model or module, our column and the peers', and what is missed."""

from __future__ import annotations

import datetime
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import surgeon
from tests.attention import comparing, pasts
from tests.attention.cases import BY_LIBRARIES, DECOYS, FORMS, Case
from tests.attention.exporting import Export, export
from tests.attention.measure import KINDS, OURS, STANDARD_OURS, TARGETS, TOOLS, Cell, measure
from tests.matrix.peers import nodes_of, versions

COLUMNS = ("model", *(f"{tool}: {kind}" for tool in TOOLS for kind in KINDS))


@dataclass
class Row:
    """What came of one export: a cell for each tool; none where the exporter raised."""

    export: Export
    cells: dict[str, Cell] = field(default_factory=dict)
    same_as: str = ""

    @property
    def is_decoy(self) -> bool:
        """Whether nothing in it may be fused."""
        return self.export.case.variant.model in DECOYS

    @property
    def own(self) -> tuple[str, ...]:
        """Our columns that were measured."""
        return tuple(tool for tool in TARGETS if tool in self.cells)

    @property
    def fault(self) -> str:
        """What is wrong with our cells; nothing where all is done and proved and no more than that."""
        reported = [f"{f'{tool}: ' * (tool != OURS)}{fault}" for tool in self.own if (fault := self.fault_of(tool))]
        return "; ".join(reported)

    def fault_of(self, tool: str) -> str:
        """The same of one of our columns."""
        cell = self.cells[tool]
        if cell.state in ("broken", "extra"):
            return ": ".join(filter(None, (cell.state, "; ".join(filter(None, (*cell.wrong, cell.steps))))))
        if cell.proved < cell.sites:
            return f"{cell.sites - cell.proved} of {cell.sites} sites not proved: {_first(cell)}"
        done = {kind: cell.done.get(kind, 0) for kind in KINDS}
        short = [f"{done[kind]} of {n} {kind}" for kind, n in self.wanted.items() if done[kind] < n]
        return f"{', '.join(short)}: {_first(cell)}" if short else ""

    @property
    def wanted(self) -> dict[str, int]:
        """Sites by kind that torch ran."""
        return {kind: self.export.truth.get(kind, 0) for kind in KINDS if self.export.truth.get(kind, 0)}


def _first(cell: Cell) -> str:
    return cell.misses[0] if cell.misses else "no reason given"


def rows(chosen: Iterable[Case], tools: Sequence[str] = TOOLS, say: Callable[[str], None] = print) -> Iterator[Row]:
    """Measure cases.  An export with the nodes of one before is not measured again.  say: is told of each case."""
    seen: dict[str, Row] = {}
    for case in chosen:
        row = Row(export(case))
        if row.export.path is not None:
            known = seen.setdefault(fingerprint(row.export), row)
            if known is not row:
                row.cells, row.same_as = known.cells, known.export.name
            else:
                row.cells = cells(row.export, tools)
        say(f"{case.name}: {'no export' if not row.cells else row.fault or 'full'}")
        yield row


def cells(one: Export, tools: Sequence[str]) -> dict[str, Cell]:
    """Every tool on one export."""
    assert one.path is not None
    truth = comparing.answers(one)
    with tempfile.TemporaryDirectory() as folder:
        return {tool: measure(one, tool, truth, Path(folder)) for tool in tools}


def fingerprint(one: Export) -> str:
    """Equal for exports whose nodes are equal but for names of nodes; the opset does not count."""
    assert one.path is not None
    texts = []
    for node in nodes_of(one.path):
        node.ClearField("name")
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
        texts.append(node.SerializeToString(deterministic=True).hex())
    free = "free" if one.case.dynamic else "fixed"
    return "\n".join([one.case.variant.name, one.case.dtype, free, *texts])


def lines(found: Sequence[Row], title: str, short: bool = False) -> Iterator[str]:
    """The table, line by line.  short: a row for each model, not for each variant, and no lists behind."""
    tools = [tool for tool in TOOLS if any(tool in row.cells for row in found)]
    measured = [row for row in found if row.cells]
    yield f"# {title}"
    yield ""
    yield f"surgeon {surgeon.__version__}, {versions()}, transformers {metadata.version('transformers')};"
    yield f"{datetime.date.today().isoformat()}; {len(found)} exports, {len(_once(measured))} of them different."
    yield ""
    yield from INTRODUCTION
    yield ""
    for kind in KINDS:
        yield from _kind([row for row in measured if not row.is_decoy], kind, tools, short)
    yield from _decoys([row for row in measured if row.is_decoy], tools)
    yield from _checks(measured, tools)
    if not short:
        if any(row.export.case.variant.past for row in found):
            yield from _pasts()
        yield from _lists(found)


INTRODUCTION = (
    "Sites that are one op in the model in the end / calls that torch ran, counted by hooks in torch.  The exporter's",
    "own ops count (*native*: in the export already); sites of a model that is broken do not.  *broken*: no file, one",
    "that ONNX Runtime does not open, or other numbers than the export's on some inputs.  *extra*: more ops than",
    "calls.  *proved*: our sites with a proof of their own.  Exports that do not run as they are, are in no count.",
    "For *target onnx*, which writes standard ops alone, exports of older opsets are raised to 23 first, as",
    "`surgeon upgrade` does it.",
)


def _kind(found: Sequence[Row], kind: str, tools: Sequence[str], short: bool) -> Iterator[str]:
    """The table of attention or of rotary embeddings."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        if kind in row.wanted:
            variant = row.export.case.variant
            model = "modules" if variant.model in FORMS + BY_LIBRARIES else variant.model
            groups[model if short else variant.name].append(row)
    yield f"## {kind}"
    yield ""
    more = _more(tools) if kind == "attention" else {}
    yield f"| | {' | '.join((*tools, *more))} |"
    yield f"|---|{'---|' * (len(tools) + len(more))}"
    groups["**all**"] = [row for group in list(groups.values()) for row in group]
    for name, group in groups.items():
        parts = [_cell(group, kind, tool) for tool in tools]
        parts += [tell([row.cells[tool] for row in group]) for tool, tell in more.values()]
        yield f"| {name} | {' | '.join(parts)} |"
    yield ""


def _more(tools: Sequence[str]) -> dict[str, tuple[str, Callable[[list[Cell]], str]]]:
    """Columns behind those of the tools: their titles, whose they are, and what they tell of its cells."""
    found: dict[str, tuple[str, Callable[[list[Cell]], str]]] = {}
    for tool in tools:
        if tool in TARGETS:
            found[f"proved{tool.removeprefix(OURS)}"] = tool, _proved
        if tool == OURS:
            found["ops"] = tool, _ops
    return found


def _proved(cells_: list[Cell]) -> str:
    own = [cell for cell in cells_ if cell.state != "original"]
    return f"{sum(cell.proved for cell in own)}/{sum(cell.sites for cell in own)}"


def _ops(cells_: list[Cell]) -> str:
    own = [cell for cell in cells_ if cell.state != "original"]
    return _counts(sum((Counter(cell.ops) for cell in own), Counter[str]()))


def _cell(group: Sequence[Row], kind: str, tool: str) -> str:
    """`12/20 (2 native), 1 broken`."""
    counted = [row for row in group if row.cells[tool].state != "original"]
    done = sum(row.cells[tool].done.get(kind, 0) for row in counted)
    wanted = sum(row.wanted[kind] for row in counted)
    native = sum(row.cells[tool].native.get(kind, 0) for row in counted) if tool in TARGETS else 0
    states = Counter(row.cells[tool].state for row in counted)
    notes = "".join(f", {states[state]} {state}" for state in ("broken", "extra") if states[state])
    return f"{done}/{wanted}{f' ({native} native)' if native else ''}{notes}"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counts.most_common() if not name.endswith("RotaryEmbedding"))


def _decoys(found: Sequence[Row], tools: Sequence[str]) -> Iterator[str]:
    if not found:
        return
    yield "## What only looks like attention: exports left as they are"
    yield ""
    yield f"| | {' | '.join(tools)} |"
    yield f"|---|{'---|' * len(tools)}"
    for name in dict.fromkeys(row.export.case.variant.model for row in found):
        group = [row for row in found if row.export.case.variant.model == name]
        parts = []
        for tool in tools:
            states = Counter(row.cells[tool].state for row in group)
            notes = "".join(f", {states[state]} {state}" for state in ("broken", "extra") if states[state])
            parts.append(f"{states['ok'] + states['original']}/{len(group)}{notes}")
        yield f"| {name} | {' | '.join(parts)} |"
    yield ""


def _checks(found: Sequence[Row], tools: Sequence[str]) -> Iterator[str]:
    """How many whole models are equal, and how many decode step by step as at once."""
    different = [row for row in _once(found) if all(row.cells[tool].state != "original" for tool in row.own)]
    yield "## Whole models"
    yield ""
    for tool in tools:
        own = [row.cells[tool] for row in different]
        equal = sum(cell.compared - len(cell.wrong) for cell in own if cell.compared)
        total = sum(max(row.cells[own].compared for own in row.own) for row in different)
        stepping = [row for row in different if row.export.loops and row.export.case.dynamic]
        right = sum(row.cells[tool].state != "broken" for row in stepping)
        stepped = f"{right} of {len(stepping)} models with a past decode step by step as at once"
        yield f"- {tool}: equal on {equal} of {total} sets of inputs; {stepped}"
    yield ""


def _once(found: Iterable[Row]) -> list[Row]:
    return [row for row in found if not row.same_as]


def _lists(found: Sequence[Row]) -> Iterator[str]:
    """What the exporters refused, what their models do not run, and what is not full, by its cause."""
    measured = [row for row in _once(found) if row.cells]
    silent = [(row.export.name, row.export.fault) for row in found if row.export.path is None]
    yield from _by_cause("No export: the exporter raised", silent)
    first = {row.export.name: row.cells[row.own[0]] for row in measured}
    broken = [(name, cell.wrong[0]) for name, cell in first.items() if cell.state == "original"]
    yield from _by_cause("Exports that ONNX Runtime does not open", broken)
    decoys = {row.export.name for row in measured if row.is_decoy}
    refused = [(name, text) for name, cell in first.items() for text in cell.refused[:1] if name not in decoys]
    yield from _by_cause("Exports that do not run on some of the inputs, as the exporter wrote them", refused)
    for tool, title in ((OURS, "Not full"), (STANDARD_OURS, "Not full, target onnx")):
        faults = [(row.export.name, fault) for row in measured if tool in row.own and (fault := row.fault_of(tool))]
        if any(tool in row.own for row in measured):
            yield from _by_cause(title, faults)


def _pasts() -> Iterator[str]:
    """In which ways each exporter takes a past."""
    yield "## How a past can be given to the exporters"
    yield ""
    yield f"| | {' | '.join(pasts.EXPORTERS)} |"
    yield f"|---|{'---|' * len(pasts.EXPORTERS)}"
    for way, by_exporter in pasts.found().items():
        parts = [plain(fault)[:120].replace("|", "/") or "written" for fault in by_exporter.values()]
        yield f"| {pasts.WAYS[way]} | {' | '.join(parts)} |"
    yield ""


def _by_cause(title: str, found: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f"## {title}: {len(found)}"
    yield ""
    causes: dict[str, list[str]] = defaultdict(list)
    for name, text in found:
        causes[plain(text)].append(name)
    for cause, names in sorted(causes.items(), key=lambda item: -len(item[1])):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"- {cause.replace('|', '/')} ({', '.join(names[:3])}{more})"
    yield ""


def plain(text: str) -> str:
    """A reason without the names and numbers that differ from model to model, so that equal ones are one line."""
    text = re.sub(r"'[^' ]*'|/\S+/\S+|node_\w+|val_\d+|0x[0-9a-f]+", "…", text)
    return re.sub(r"(?<!of )\b\d+\b(?! of)", "n", text)[:300]
