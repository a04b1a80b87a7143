"""The report of a rewrite: sites, near misses and check results."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from surgeon.pipeline.reports.site import Site
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.result_base import ResultBase, json_of
from surgeon.rules.mismatches.mismatch import Mismatch

if TYPE_CHECKING:
    from surgeon.pipeline.reports.edit_report import EditReport
    from surgeon.pipeline.reports.upgrade_report import UpgradeReport
    from surgeon.proof.site_proof import SiteProof

FEW = 8  # up to this number of rules, the text of a report also names those that fired nowhere
MISS_KEYS = "rule node reason where matched total kind op change opset near others"
"""Fields of a mismatch in JSON."""


@dataclass(slots=True)
class Report(ResultBase):
    """What one rewrite did.  Its fields are keys of the JSON report, so they stay together in one record.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("notebooks/models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> report.outcome, report.count("gelu"), report.nodes_before, report.nodes_after
        ('proved', 4, 180, 164)
    """

    source: str
    """Path of the input model; empty if it was in memory."""
    output: str
    """Path of the output file; empty if the result stays in memory."""
    target: str
    """Target that the rules wrote for."""
    selection: dict[str, tuple[str, ...]]
    """Names of the rules that ran, by the name that the user gave."""
    sites: list[Site] = field(default_factory=list)
    """Sites that are in the result."""
    rolled_back: list[Site] = field(default_factory=list)
    """Sites that were rolled back because they failed or were not proved."""
    misses: list[Mismatch] = field(default_factory=list)
    """For each rule that found nothing or nearly matched, why."""
    nodes_before: int = 0
    """Nodes in all scopes of the source, without Constants."""
    nodes_after: int = 0
    """Nodes in all scopes of the result, without Constants."""
    check: CheckResult | None = None
    """Comparison of the whole models; None if none was requested."""
    written: bool = False
    """Whether the output file was written."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Duration by phase: "read", "match", "prove", "check", "write"."""
    ep: str | None = None
    """Execution provider that the user gave; None for the default."""
    constants: tuple[int, int] = (0, 0)
    """Constant nodes (before, after)."""
    upgrade: "UpgradeReport | None" = None
    """Upgrade of the opset before the rules ran; None if there was none."""
    not_upgraded: str = ""
    """Why the requested upgrade was not done; empty if none was requested or it was done."""
    tails: tuple[str, ...] = ()
    """Names among the rules that stand for an edit, such as "nms"."""
    edited: "EditReport | None" = None
    """What that edit did before the rules ran; None without one."""
    unused: dict[str, str] = field(default_factory=dict)
    """Patterns of `only` and `skip` that match no node, with a clause on the nearest names.

    Only a recipe continues with such patterns, because it may also be meant for other models.
    """
    dims: dict[str, int] = field(default_factory=dict)
    """Sizes of dynamic dims that the user gave for the proofs, by name."""
    refused: str = ""
    """Why ONNX Runtime loads neither the original nor the result; empty if it loads one or was not run."""
    next_steps: tuple[str, ...] = ()
    """What to do before the model runs on the target, such as sizes to give, one clause each."""

    @property
    def outcome(self) -> str:
        """The worst of failed, unproved, unchecked and proved over all sites, or unchanged where nothing matched.

        A site that was rolled back counts too, although it is not in the result.
        """
        found = {site.outcome for site in (*self.sites, *self.rolled_back)}
        if self.check is not None:
            found.add(self.check.outcome.value)
        found.update(one.outcome for one in (self.upgrade, self.edited) if one is not None)
        return next(
            (outcome for outcome in ("failed", "unproved", "unchecked", "proved") if outcome in found), "unchanged"
        )

    @property
    def is_unchanged(self) -> bool:
        """Whether the model is unchanged."""
        return not self.sites and self.upgrade is None and self.edited is None

    @property
    def proved(self) -> bool:
        """Whether every site is proved, or there was nothing to prove."""
        return self.outcome in ("proved", "unchanged")

    @property
    def proofs(self) -> "list[SiteProof]":
        """The proofs of all sites; a shared proof once."""
        found = {id(site.proof): site.proof for site in (*self.sites, *self.rolled_back) if site.proof is not None}
        return list(found.values())

    @property
    def remembered(self) -> int:
        """The number of sites whose proof an earlier run on this machine made."""
        return sum(site.proof is not None and site.proof.remembered for site in (*self.sites, *self.rolled_back))

    @property
    def doubts(self) -> list[str]:
        """Why sites, or the whole model, are not proved: one sentence each, the site named."""
        found = [
            f"{site.rule} at {site.root}: {site.proof.reason}"
            for site in self.sites
            if site.proof is not None and site.outcome == "unproved"
        ]
        checks = (*(one.check for one in (self.edited, self.upgrade) if one is not None), self.check)
        return found + [one.reason for one in checks if one is not None and one.outcome is Outcome.UNPROVED]

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

    def timed(self, seconds: dict[str, float]) -> None:
        """Set the durations of the phases."""
        self.seconds = seconds

    def add_steps_before(self) -> None:
        """Add the durations of the edit and the upgrade before the rules."""
        for phase, report in (("edit", self.edited), ("upgrade", self.upgrade)):
            if report is not None:
                self.seconds[phase] = report.seconds

    def saved(self, copied: int, new: int) -> None:
        """Note that the result is written."""
        self.written = True

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON can hold it."""
        places = {id(proof): place for place, proof in enumerate(self.proofs)}
        return {
            **json_of(self, "source output target ep? rules=selection outcome nodes_before nodes_after constants"),
            **json_of(self, "edited? upgrade not_upgraded"),
            **({"unused": list(self.unused)} if self.unused else {}),
            **json_of(self, "dims? refused? next_steps? counts"),
            "sites": [site.to_dict(places.get(id(site.proof))) for site in self.sites],
            "rolled_back": [site.to_dict(places.get(id(site.proof))) for site in self.rolled_back],
            "misses": [json_of(miss, MISS_KEYS) for miss in self.misses],
            **json_of(self, "proofs remembered check written seconds"),
        }

    def __repr__(self) -> str:
        shown = {rule: count for rule, count in self.counts.items() if count or len(self.counts) <= FEW}
        silent = [f"{len(self.counts) - len(shown)} other rules 0"] if len(shown) < len(self.counts) else []
        found = ", ".join([*(f"{rule} {count}" for rule, count in shown.items()), *silent])
        gone = f"; {len(self.rolled_back)} rolled back" if self.rolled_back else ""
        return f"<Report {found}{gone}; nodes {self.nodes_before} -> {self.nodes_after}; {self.outcome}>"
