"""What rewriting one file costs: processor time of whole processes, their children included, and what came out."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from tests.command_line import result_in
from tests.real_models.getting import last_line
from tests.real_models.peers import present

COUNTED = Path(__file__).with_name("counted.py")
OURS, UNCHECKED = "surgeon", "--check none"
_UNPROVED = 5  # exit codes up to here are outcomes: something is rolled back, or stays unproved
# Operators of ai.onnx that take the place of several nodes; all of com.microsoft count too.
FUSED = frozenset(
    {
        *("Attention", "BatchNormalization", "Gelu", "GroupNormalization", "HardSwish", "InstanceNormalization"),
        *("LayerNormalization", "Mish", "RMSNormalization", "RotaryEmbedding", "SimplifiedLayerNormalization", "Swish"),
    }
)


@dataclass
class Cost:
    """One model: nodes before and after, proofs by outcome, and by contender seconds of processor time or why not."""

    name: str
    before: int = 0
    after: int = 0
    proofs: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    fused: dict[str, int] = field(default_factory=dict)
    latency: str = ""


@dataclass(frozen=True)
class Spent:
    """A process that ended: seconds of processor time, user and system, its children's too, and its last words."""

    seconds: float
    code: int
    words: str


def spent(command: Sequence[str], limit: float) -> Spent:
    """Run a command to its end; each of its processes may take `limit` seconds of processor time."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        counted = Path(folder) / "seconds"
        limited = ("bash", "-c", f'ulimit -t {limit:.0f}; exec "$@"', "-", *command)
        code = subprocess.call((sys.executable, str(COUNTED), str(counted), *limited), stdout=output, stderr=output)
        output.seek(0)
        words = output.read().decode(errors="replace")
        return Spent(float(counted.read_text()), code, words)


def cost(name: str, path: Path, rules: str, folder: Path, *, peers: bool, limit: float) -> Cost:
    """Rewrite a file with and without proofs, and let the peers have it; what they write lies in `folder`."""
    found = Cost(name, before=_nodes(path))
    source = fused(path)
    report, other = folder / "report.json", folder / "unchecked.json"  # both write one: that is no part of the proofs
    contenders = {OURS: ("--report", str(report)), UNCHECKED: ("--check", "none", "--report", str(other))}
    for contender, options in contenders.items():
        target = folder / f"{contender.strip('- ').replace(' ', '_')}.onnx"
        command = (sys.executable, "-m", "surgeon", "rewrite", str(path), str(target), "--rules", rules, *options)
        _take(found, contender, spent((*command, "--keep-going", "-q"), limit), target, source)
    if OURS in found.seconds:
        _read(found, result_in(report.read_text()))
    for peer in present() if peers else ():
        target = folder / f"{peer}.onnx"
        command = (sys.executable, "-m", "tests.real_models.peers", peer, str(path), str(target))
        _take(found, peer, spent(command, limit), target, source)
    return found


def _take(found: Cost, contender: str, run: Spent, target: Path, source: Counter[str]) -> None:
    """Note what one contender spent, and how many operators it fused; or why it wrote nothing."""
    allowed = _UNPROVED if contender in (OURS, UNCHECKED) else 0
    if not 0 <= run.code <= allowed or not target.exists():
        found.refused[contender] = last_line(run.words) if run.words else f"ended after {run.seconds:.0f} s"
        return
    found.seconds[contender] = run.seconds
    found.fused[contender] = sum((fused(target) - source).values())


def _read(found: Cost, report: dict[str, Any]) -> None:
    found.after = report["nodes_after"]
    found.proofs.update(site["outcome"] for site in report["sites"])
    found.proofs["failed"] += len(report["rolled_back"])


def fused(path: Path) -> Counter[str]:
    """How often each fused operator stands in a file, bodies of functions and of nodes included."""
    counts: Counter[str] = Counter()
    for node in _all_nodes(onnx.load(path, load_external_data=False)):
        if node.domain == "com.microsoft" or (node.domain in ("", "ai.onnx") and _is_fused(node)):
            counts[node.op_type] += 1
    return counts


def _is_fused(node: onnx.NodeProto) -> bool:
    """Whether a node of ai.onnx takes the place of several: by its operator, or as a Sum of more than two."""
    return node.op_type in FUSED or (node.op_type == "Sum" and len(node.input) > 2)


def _nodes(path: Path) -> int:
    return sum(1 for _ in _all_nodes(onnx.load(path, load_external_data=False)))


def _all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    waiting = [node for function in model.functions for node in function.node]
    waiting += model.graph.node
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            waiting += attribute.g.node
            waiting += (inner for graph in attribute.graphs for inner in graph.node)
