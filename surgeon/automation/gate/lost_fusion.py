"""The nearest misses of lost fusions: nodes at which rules stop, with the reasons."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from surgeon.automation.gate.gate_rules import FUSION_LOST
from surgeon.automation.gate.model_comparison import Difference, joined
from surgeon.diagnostics.explanation import explanations
from surgeon.file.model import Model
from surgeon.ops.traversal import node_label, nodes_of
from surgeon.rules.fused_families import fused_families
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.targets.inspection.provenance import source_frames


def with_nearest_mismatches(
    found: Iterable[Difference], source: str, settings: Mapping[str, Any], fired: Collection[str]
) -> list[Difference]:
    """The differences of a model, each lost fusion with the nearest miss of a rule of its family, and its lines.

    source: path of the model; one in a store is not read again.  fired: rules that rewrote the model of the baseline.
    """
    path = Path(source)
    if not path.is_file():
        return list(found)
    explained = explanations(path, settings["rules"], target=settings["target"], ep=settings["ep"], top=1)
    mismatches = [miss for explanation in explained for miss in explanation.misses]
    with Model.open(path) as model:
        return [_with_mismatch(one, mismatches, fired, model) if one.rule is FUSION_LOST else one for one in found]


def _with_mismatch(
    lost: Difference, mismatches: Iterable[Mismatch], fired: Collection[str], model: Model
) -> Difference:
    """A lost fusion with the nearest miss: of a rule that fired, if possible of the main rule of its family."""
    names = fused_families()[lost.subject].rules
    near = [miss for miss in mismatches if miss.rule in names]
    best = min(near, key=lambda miss: (miss.rule not in fired, miss.rule != lost.subject, -miss.matched), default=None)
    if best is None:
        return lost
    where = f" at {best.node}" if best.node else ""
    cause = joined(lost.cause, f"nearest miss of {best.rule}{where}: {best.reason}")
    if not best.node:
        return replace(lost, cause=cause)
    nodes = (node for node in nodes_of(model.skeleton) if node_label(node) == best.node)
    frames = next(map(source_frames, nodes), [])  # a rule made a node that the model does not have
    return replace(lost, cause=cause, nodes=(best.node,), frames=tuple(frames))
