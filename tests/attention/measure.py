"""One cell: what a tool made of one export, held against what torch ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx

import surgeon
from surgeon.errors import SurgeonError
from surgeon.pipeline.upgrading.upgrade import upgrade
from surgeon.rules.catalogue import resolve, unique_rules
from tests.attention import comparing, peers
from tests.attention.apart import apart
from tests.attention.exporting import Export
from tests.matrix.peers import nodes_of

OURS, STANDARD_OURS = "surgeon", "surgeon, target onnx"
TARGETS = {OURS: "ort", STANDARD_OURS: "onnx"}
"""The target of each column of ours."""
OPSET = 23
"""From which on ONNX has attention and rotary embeddings of its own; older exports are raised to it for its column."""
TOOLS = (*TARGETS, *peers.PEERS)
RULES = ("transformers",)
OWN_RULES = frozenset(rule.name for rule in unique_rules(resolve(("attentions",))))
"""The rules that this matrix is about; the others of RULES prepare for them."""

MICROSOFT, STANDARD = "com.microsoft", ""
ATTENTION = (
    (STANDARD, "Attention"),
    (MICROSOFT, "Attention"),
    (MICROSOFT, "MultiHeadAttention"),
    (MICROSOFT, "GroupQueryAttention"),
    (MICROSOFT, "DecoderMaskedMultiHeadAttention"),
    (MICROSOFT, "PackedMultiHeadAttention"),
)
ROTARY = ((STANDARD, "RotaryEmbedding"), (MICROSOFT, "RotaryEmbedding"))
KINDS = ("attention", "rotary")


@dataclass(frozen=True)
class Cell:
    """One tool on one export.

    done, native: sites by kind that are one op in the end, and that are so in the export.  ops: the ops that stand for
    them.  state: "ok", "broken" (no file, does not open, other numbers), "extra" (more ops than torch ran) or
    "original" (the exporter's own model does not run).  wrong: how the model differs.  sites, proved: of our report.
    misses: why our rules did not fire.  steps: how decoding by steps differs from decoding at once.
    """

    done: dict[str, int]
    native: dict[str, int]
    ops: dict[str, int]
    state: str
    wrong: tuple[str, ...] = ()
    compared: int = 0
    sites: int = 0
    proved: int = 0
    misses: tuple[str, ...] = ()
    steps: str = ""
    refused: tuple[str, ...] = field(default=())


def found(nodes: Iterable[onnx.NodeProto]) -> tuple[Counter[str], Counter[str]]:
    """Sites by kind that are one op, and the ops by name."""
    kinds, ops = Counter[str](), Counter[str]()
    for node in nodes:
        domain = STANDARD if node.domain == "ai.onnx" else node.domain
        kind = {**dict.fromkeys(ATTENTION, "attention"), **dict.fromkeys(ROTARY, "rotary")}.get((domain, node.op_type))
        if kind is None:
            continue
        kinds[kind] += 1
        ops[f"{'ms.' * (domain == MICROSOFT)}{node.op_type}"] += 1
        if any(item.name == "do_rotary" and item.i for item in node.attribute):
            kinds["rotary"] += 1 if node.op_type == "Attention" else 2
    return kinds, ops


def measure(export: Export, tool: str, truth: comparing.Truth | str, folder: Path) -> Cell:
    """Let a tool write its model into the folder, and compare it.  The export must have a file."""
    assert export.path is not None
    if tool in TARGETS:
        return _ours(export, truth, folder / f"{TARGETS[tool]}.onnx", TARGETS[tool])
    cells = []
    for use in peers.uses(tool, export.case.variant.model):
        output = folder / f"peer{len(cells)}.onnx"
        made = apart(_peers, export, tool, use, truth, output)
        cells.append(made or _judged(export, truth, folder / "none.onnx", "the process crashed"))
    return max(cells, key=lambda cell: (cell.state in ("ok", "original"), sum(cell.done.values())))


def _peers(export: Export, tool: str, use: peers.Use, truth: comparing.Truth | str, output: Path) -> Cell:
    assert export.path is not None
    return _judged(export, truth, output, peers.run(tool, use, export.path, output))


def _ours(export: Export, truth: comparing.Truth | str, output: Path, target: str) -> Cell:
    try:
        source = _source(export, target, output.with_name("raised.onnx"))
    except SurgeonError as error:
        return replace(_judged(export, truth, export.path, ""), misses=(f"not raised to opset {OPSET}: {error}",))
    try:
        _, report = surgeon.rewrite(source, RULES, target=target, output=output, check="sites", keep_going=True)
    except SurgeonError as error:
        return _judged(export, truth, output, str(error))
    cell = _judged(export, truth, output, "")
    # clean-up that stands alone is proved too, but is none of the sites that this matrix is about
    about = [
        site for site in (*report.sites, *report.rolled_back) if any(_name(rule) in OWN_RULES for rule in site.rules)
    ]
    reported = [f"{site.rule} at {site.root} not proved: {site.reason}" for site in about if site.outcome != "proved"]
    short = [kind for kind in KINDS if cell.done.get(kind, 0) < export.truth.get(kind, 0)]
    reported += _reasons(source, target, short, output)
    proved = sum(site.outcome == "proved" for site in about)
    return replace(cell, sites=len(about), proved=proved, misses=tuple(reported))


def _source(export: Export, target: str, raised: Path) -> Path:
    """What is rewritten: the export, raised to the opset that the target wants, if need be.

    Raises GraphError where nodes would change their meaning.
    """
    assert export.path is not None
    if target != "onnx" or export.case.opset >= OPSET:
        return export.path
    upgrade(export.path, OPSET, raised, check="none", force=True)
    return raised


def _reasons(source: Path, target: str, short: list[str], output: Path) -> list[str]:
    """Why rules of these kinds do not fire, by the deepest first; without the rules that come behind them."""
    if not short:
        return []
    rules = ("cleanup", "attentions")
    made = output.with_name("reasons.onnx")
    _, report = surgeon.rewrite(source, rules, target=target, output=made, check="none", force=True)
    return [
        f"{miss.rule} at {miss.node}: {miss.reason} ({miss.matched} of {miss.total}, {miss.where})"
        for miss in sorted(report.misses, key=lambda miss: -miss.matched / max(miss.total, 1))
        if miss.node and _name(miss.rule) in OWN_RULES and ("rotary" if "rotary" in miss.rule else "attention") in short
    ]


def _name(rule: str) -> str:
    """The name of a rule without its file's."""
    return rule.rpartition(":")[2]


def _judged(export: Export, truth: comparing.Truth | str, output: Path, fault: str) -> Cell:
    """What the tool's file shows."""
    assert export.path is not None
    native, _ = found(nodes_of(export.path))
    if isinstance(truth, str):
        done, ops = found(nodes_of(output)) if output.exists() else (Counter[str](), Counter[str]())
        return Cell(_most(done, export), _most(native, export), dict(ops), "original", (truth,))
    if not output.exists():
        return Cell({}, _most(native, export), {}, "broken", (fault,))
    done, ops = found(nodes_of(output))
    wrong = tuple(comparing.differences(truth, output, export.case.dtype))
    steps = ""
    if export.loops and not wrong and not truth.steps:
        model = comparing.opened(output)
        steps = model if isinstance(model, str) else "; ".join(comparing.stepwise(model, export))
    is_extra = any(done[kind] > max(export.truth.get(kind, 0), native[kind]) for kind in KINDS)
    state = "broken" if wrong or steps else "extra" if is_extra else "ok"
    kept = {} if wrong or steps else _most(done, export)
    refused = truth.refused
    return Cell(kept, _most(native, export), dict(ops), state, wrong, len(truth.answers), steps=steps, refused=refused)


def _most(counts: Counter[str], export: Export) -> dict[str, int]:
    """Sites done, of those that torch ran."""
    return {kind: min(counts[kind], export.truth.get(kind, 0)) for kind in KINDS}
