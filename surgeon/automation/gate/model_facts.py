"""The facts that a baseline has about one model; equal exports have equal facts under any names and metadata."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from surgeon.automation.fleet.fleet_row import WRONG, FleetRow
from surgeon.result_base import JsonRecord
from surgeon.rules.fused_families import count_families, fused_ops

DYNAMIC = "?"
_TENSOR = re.compile(r"(?P<dtype>[\w ]+)(?:\[(?P<dims>.*)\])?")


@dataclass(frozen=True, slots=True)
class PortType:
    """The type of an input or output."""

    dtype: str
    """Its dtype, or the whole type of a sequence, a map or an optional value."""
    dims: tuple[str, ...] | None = None
    """A number or DYNAMIC for each dim; None for an unknown rank."""


def port_type(text: str) -> PortType:
    """The type of a text such as "float32[?, 7]"."""
    found = _TENSOR.fullmatch(text)
    if found is None:
        return PortType(text)
    dims = found["dims"]
    return PortType(found["dtype"], None if dims is None else tuple(filter(None, dims.split(", "))))


@dataclass(frozen=True, slots=True)
class ExportFacts(JsonRecord):
    """The facts about an export that explain a regression, and are never one."""

    JSON = "producer opsets structure"

    producer: str = ""
    """Name and version of the exporter."""
    opsets: Mapping[str, int] = field(default_factory=dict)
    """Versions by domain."""
    structure: str = ""
    """Hash of the model before the rewrite, without names, metadata and large weights."""


@dataclass(frozen=True, slots=True)
class ModelFacts(JsonRecord):
    """The facts about one model and its rewritten result."""

    JSON = "outcome inputs outputs fused unsupported proofs rolled_back nodes weights rules export"

    outcome: str
    """As of a fleet's row: "proved", "unproved", "refused", ..."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Types of the required inputs by name, with "?" for a dynamic dim."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Types of the outputs by name."""
    fused: Mapping[str, int] | None = None
    """Fused ops of the result by op, of rules and of the exporter; None for a dry run."""
    unsupported: tuple[str, ...] = ()
    """Ops of the result that the target lacks, or kinds of other problems that stop it."""
    proofs: Mapping[str, int] = field(default_factory=dict)
    """Number of sites by outcome."""
    rolled_back: Mapping[str, int] = field(default_factory=dict)
    """Number of sites that were rolled back, by rule."""
    nodes: int = 0
    """Nodes of the result, without Constants."""
    weights: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the result's weights by dtype."""
    rules: Mapping[str, int] = field(default_factory=dict)
    """Number of sites that each rule rewrote; they explain a regression, and are never one."""
    export: ExportFacts = ExportFacts()
    """The facts about the export."""

    @property
    def families(self) -> dict[str, int]:
        """The number of fused ops by family."""
        return count_families(self.fused or {})

    @property
    def families_text(self) -> str:
        """The number of fused ops by family, as a list."""
        return ", ".join(f"{family} {count:,}" for family, count in self.families.items())

    @property
    def is_refused(self) -> bool:
        """Whether the model has no result: it cannot be read, loaded or finished."""
        return self.outcome in WRONG and self.outcome != "failed"

    @property
    def unproved(self) -> int:
        """Sites of the result that are not proved."""
        return self.proofs.get("unproved", 0)


def facts_of(row: FleetRow) -> ModelFacts:
    """The facts of a row of a fleet."""
    known, ops = row.facts, row.facts.get("ops")
    fused = fused_ops()
    return ModelFacts(
        row.outcome,
        known.get("inputs", {}),
        known.get("outputs", {}),
        fused=None if ops is None else {op: count for op, count in ops.items() if op in fused},
        unsupported=tuple(sorted(known.get("unsupported", ()))),
        proofs=row.proofs,
        rolled_back=known.get("rolled_back", {}),
        nodes=row.nodes[1],
        weights=known.get("weights", {}),
        rules=row.counts,
        export=ExportFacts(known.get("producer", ""), known.get("opsets", {}), row.graph),
    )


_FIELDS = {item.name for item in fields(ModelFacts)}


def facts_from_dict(found: Mapping[str, Any]) -> ModelFacts:
    """The facts from their `to_dict`, of this version or another.  Raises TypeError for other content."""
    known = {name: value for name, value in found.items() if name in _FIELDS}
    export = ExportFacts(**found["export"])
    return ModelFacts(**known | {"unsupported": tuple(known.get("unsupported", ())), "export": export})
