"""The report of a rewrite: sites, near misses and check results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from surgeon.pipeline.reports.edit_report import EditReport
from surgeon.pipeline.reports.measurement import Measurement
from surgeon.pipeline.reports.report import OUTCOMES, UNCHANGED, Report
from surgeon.pipeline.reports.site import Site
from surgeon.pipeline.reports.upgrade_report import UpgradeReport
from surgeon.proof.check_result import CheckResult
from surgeon.result_base import json_of
from surgeon.rules.catalogue import groups
from surgeon.rules.mismatches.mismatch import Mismatch

if TYPE_CHECKING:
    from surgeon.proof.site_proof import SiteProof

FEW = 8  # up to this number of rules, a report also names those without a site
MISS_KEYS = "rule node reason where matched total kind op change opset near others"
"""Fields of a mismatch in JSON."""


def named_rules(selection: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """As `RewriteReport.named`.  selection: names of rules, by the name that the user gave."""
    chosen = [rules for name, rules in selection.items() if len(rules) <= FEW and name not in groups()]
    return frozenset().union(*chosen)


@dataclass(slots=True)
class RewriteReport(Report):
    """The result of one rewrite.  Its fields are keys of the JSON report, so they stay together in one record.

    Its steps are the edit and the upgrade before the rules.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("notebooks/models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> report.outcome, report.count("gelu"), report.nodes_before, report.nodes_after
        ('proved', 4, 180, 164)
    """

    target: str
    """Target that the rules wrote for."""
    selection: dict[str, tuple[str, ...]]
    """Names of the rules that ran, by the name that the user gave."""
    default_group: str = ""
    """Group of rules that ran because the user named no rules."""
    sites: list[Site] = field(default_factory=list)
    """Sites that are in the result."""
    rolled_back: list[Site] = field(default_factory=list)
    """Sites that were rolled back because they failed or were not proved."""
    misses: list[Mismatch] = field(default_factory=list)
    """Declined matches; for each rule that the user named, also why it found nothing or nearly matched."""
    nodes_before: int = 0
    """Nodes in all scopes of the source, without Constants."""
    nodes_after: int = 0
    """Nodes in all scopes of the result, without Constants."""
    ep: str | None = None
    """Execution provider that the user gave; None for the default."""
    constants: tuple[int, int] = (0, 0)
    """Constant nodes (before, after)."""
    not_upgraded: str = ""
    """Why the requested upgrade was not done; empty if none was requested or it was done."""
    tails: tuple[str, ...] = ()
    """Names among the rules that represent an edit, such as "nms"."""
    unused: dict[str, str] = field(default_factory=dict)
    """Patterns of `only` and `skip` that match no node, with a clause on the nearest names.

    Only a recipe continues with such patterns, because it may also be meant for other models.
    """
    cleanup: frozenset[str] = frozenset()
    """Rules among those that ran that only prepare the model for others; a summary counts their sites as one."""
    dims: dict[str, int] = field(default_factory=dict)
    """Sizes of dynamic dims that the user gave for the proofs, by name."""
    runtime: str = ""
    """The runtime of replacements in proofs, with its version, if it is not ONNX Runtime on the CPU."""
    not_on_target: str = ""
    """Why the target's runtime ran no replacement in proofs, as a clause; empty if it did."""
    next_steps: tuple[str, ...] = ()
    """The steps before the model runs on the target, such as sizes to give, one clause each."""
    measurement: Measurement | None = None
    """How the forms of the rules were chosen; None if they were not measured."""

    @property
    def named(self) -> frozenset[str]:
        """The rules that the user named, by themselves or in a small file; a group names none of its rules."""
        return named_rules(self.selection)

    @property
    def changed(self) -> bool:
        """Whether sites are in the result."""
        return bool(self.sites)

    @property
    def own_outcome(self) -> str:
        """The worst outcome of the sites and of the whole model; a site that was rolled back counts too."""
        found = {site.outcome for site in (*self.sites, *self.rolled_back)}
        found |= {UNCHANGED if self.check is None else self.check.outcome.value}
        return min(found, key=OUTCOMES.index)

    @property
    def edited(self) -> EditReport | None:
        """The result of the edit that a rule name represents, before the rules ran; None without one."""
        return next((step for step in self.steps if isinstance(step, EditReport)), None)

    @property
    def upgrade(self) -> UpgradeReport | None:
        """Upgrade of the opset before the rules ran; None if there was none."""
        return next((step for step in self.steps if isinstance(step, UpgradeReport)), None)

    @property
    def nodes(self) -> tuple[int, int]:
        """Nodes (before, after)."""
        return self.nodes_before, self.nodes_after

    @property
    def seconds(self) -> dict[str, float]:
        """Durations by phase, including those of the edit and of the upgrade."""
        before = (("edit", self.edited), ("upgrade", self.upgrade))
        return self.phases | {phase: step.duration for phase, step in before if step is not None}

    @property
    def proofs(self) -> "list[SiteProof]":
        """The proofs of all sites; a shared proof once."""
        found = {id(site.proof): site.proof for site in (*self.sites, *self.rolled_back) if site.proof is not None}
        return list(found.values())

    @property
    def remembered(self) -> int:
        """The number of sites whose proof comes from an earlier run on this machine."""
        return sum(site.proof is not None and site.proof.remembered for site in (*self.sites, *self.rolled_back))

    def knows(self, name: str) -> bool:
        """Whether the user gave this name of rules, or a rule of this name ran."""
        inner = name.rpartition(":")[2]
        return name in (*self.selection, *self.tails) or any(inner in rules for rules in self.selection.values())

    def count(self, name: str, *, rolled_back: bool = False) -> int:
        """How often the rules that the user gave by this name fired, or the rule of this name or file:name.

        If several of them chained at a site, the one that fired most often there counts.  rolled_back: count the sites
        that were rolled back instead of those in the result.
        """
        if name in self.tails:
            return int(self.edited is not None and not rolled_back)
        rules = self.selection.get(name, (name.rpartition(":")[2],))
        sites = self.rolled_back if rolled_back else self.sites
        return sum(max((fired for rule, fired in site.fired.items() if rule in rules), default=0) for site in sites)

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule fired at sites in the result."""
        found = {name: self.count(name) for name in self.tails}
        found |= {rule: 0 for rules in self.selection.values() for rule in rules}
        fired = Counter(step.rule for site in self.sites for step in site.steps if not step.is_for_sizes)
        return found | {rule: found.get(rule, 0) + times for rule, times in fired.items()}

    def record(self, found: CheckResult | None) -> None:
        """Add the comparison with the model before the rules."""
        self.check = found
        for site in self.sites:
            site.check = found

    def to_dict(self) -> dict[str, Any]:
        """The report as values that JSON supports."""
        places = {id(proof): place for place, proof in enumerate(self.proofs)}
        return {
            **json_of(self, "source output target ep? rules=selection default_group? outcome assumptions?"),
            **json_of(self, "nodes_before nodes_after constants edited? upgrade not_upgraded"),
            **({"unused": list(self.unused)} if self.unused else {}),
            **json_of(self, "dims? refused? next_steps? counts measurement?"),
            "sites": [site.to_dict(places.get(id(site.proof))) for site in self.sites],
            "rolled_back": [site.to_dict(places.get(id(site.proof))) for site in self.rolled_back],
            "misses": [json_of(miss, MISS_KEYS) for miss in self.misses],
            **json_of(self, "runtime? not_on_target? proofs remembered check written seconds"),
        }

    def __repr__(self) -> str:
        shown = {rule: count for rule, count in self.counts.items() if count or len(self.counts) <= FEW}
        silent = [f"{len(self.counts) - len(shown)} other rules 0"] if len(shown) < len(self.counts) else []
        found = ", ".join([*(f"{rule} {count}" for rule, count in shown.items()), *silent])
        gone = f"; {len(self.rolled_back)} rolled back" if self.rolled_back else ""
        return f"<Report {found}{gone}; nodes {self.nodes_before} -> {self.nodes_after}; {self.outcome}>"
