"""The nearest miss of a lost fusion: the node where its rule stops, and why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from surgeon.automation.gate.model_comparison import Difference
from surgeon.diagnostics.explanation import explanations
from surgeon.file.model import Model
from surgeon.ops.traversal import node_label, nodes_of
from surgeon.rules.fused_families import fused_families
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.targets.inspection.provenance import source_frames


def with_nearest_miss(lost: Difference, source: str, settings: Mapping[str, Any], fired: Sequence[str]) -> Difference:
    """The difference with the nearest miss of a rule of its family in the cause, and the lines that led to its node.

    source: path of the model; one in a store is not read again.  fired: rules that rewrote the model of the baseline.
    """
    path = Path(source)
    if not path.is_file():
        return lost
    names = fused_families()[lost.subject].rules
    found = list(_misses(path, settings, names))
    found.sort(key=lambda miss: (miss.rule not in fired, miss.rule != lost.subject, -miss.matched))
    if not found:
        return lost
    best = found[0]
    where = f" at {best.node}" if best.node else ""
    cause = "; ".join(filter(None, [lost.cause, f"nearest miss of {best.rule}{where}: {best.reason}"]))
    frames = _frames(path, best.node)
    return replace(lost, cause=cause, nodes=(best.node,) if best.node else (), frames=frames)


def _misses(path: Path, settings: Mapping[str, Any], names: frozenset[str]) -> Iterator[Mismatch]:
    """The misses of rules of a family, if the rules that run are among them."""
    for explanation in explanations(path, settings["rules"], target=settings["target"], ep=settings["ep"], top=1):
        yield from (miss for miss in explanation.misses if miss.rule in names)


def _frames(path: Path, name: str) -> tuple[tuple[str, int], ...]:
    """The lines of the user's program that led to a node of the model; empty for a node that a rule made."""
    with Model.open(path) as model:
        found = next((node for node in nodes_of(model.skeleton) if name and node_label(node) == name), None)
        return () if found is None else tuple(source_frames(found))
