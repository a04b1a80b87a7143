"""The validated arguments of `rewrite`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surgeon.errors import UsageError
from surgeon.file.model_like import is_in_memory
from surgeon.file.save import ExternalDataMode
from surgeon.pipeline.acceptance.kernel_support import resolve_provider
from surgeon.pipeline.rewriting.driver_settings import NodeFilter
from surgeon.pipeline.rewriting.greedy_driver import Progress
from surgeon.proof.check_options import (
    CHECKS,
    Check,
    CheckOptions,
    require_check,
    require_expected_counts,
    require_output,
)

UpgradeChoice: TypeAlias = int | Literal["none", "auto"]


@dataclass(frozen=True, slots=True)
class RewriteSettings:
    """The arguments of `rewrite`, one field each, so that a recipe and the command line pass them on unchanged."""

    output: Path | None
    """Path of the output file; None for a model in memory."""
    target: str
    """Name of the target."""
    ep: str | None
    """Execution provider; None for the default of the target."""
    check: Check
    """Which checks run."""
    node_filter: NodeFilter
    """Nodes that may be rewritten."""
    require_proof: bool = False
    """Whether to roll back sites that are not proved."""
    keep_going: bool = False
    """Whether rolled back sites raise no CheckFailed."""
    approximate: bool = False
    """Whether a group of rules includes those that change numbers beyond rounding."""
    dry_run: bool = False
    """Whether to report only, and write nothing."""
    external_data: ExternalDataMode = "auto"
    """How to write data files."""
    force: bool = False
    """Whether to overwrite a data file of other content."""
    expect: Mapping[str, int] = field(default_factory=dict)
    """How often rules must fire, by name."""
    options: CheckOptions = field(default_factory=CheckOptions)
    """Seeds, sizes, tolerances and limits of the checks."""
    progress: Progress | None = None
    """Called after each rewrite and at each phase of the checks."""
    inline: Sequence[str] = ()
    """Local functions whose calls are inlined first."""
    upgrade: UpgradeChoice = "none"
    """Opset to which the model is raised first."""
    for_many: bool = False
    """Whether the rules run on other models too: a pattern that matches no node is then reported, not an error."""

    def refuse_misuse(self, source: Any) -> None:
        """Raise UsageError for invalid arguments and combinations."""
        require_target(self.target, self.ep)
        self.options.require()
        in_memory = is_in_memory(source)
        require_check(self.check, CHECKS, self.require_proof and not self.dry_run)
        if self.check in ("sites", "none") and (self.options.inputs or self.options.layers):
            raise UsageError(
                "Inputs and layers are for the check of the whole model, which is off; choose the check model or both."
            )
        require_output(in_memory, self.output, self.dry_run)
        require_choice(self.upgrade, self.expect, self.node_filter.only, self.node_filter.skip)

    def edit_arguments(self) -> dict[str, Any]:
        """The arguments of an edit that runs before the rules."""
        check = "none" if self.check == "none" or self.dry_run else "auto"
        return {"target": self.target, "check": check, "require_proof": self.require_proof, "options": self.options}

    def with_proof_warmup(self) -> Progress | None:
        """The progress callback; at the first rewrite it also starts the workers of the proofs."""
        if self.dry_run or self.check not in ("sites", "both"):
            return self.progress
        progress, is_started = self.progress, False

        def report(rule: str, count: int) -> None:
            nonlocal is_started
            if not is_started:
                # Not at the top: a run without proofs does not import it.
                from surgeon.proof.site.worker_proofs import start

                is_started = True
                start()
            if progress is not None:
                progress(rule, count)

        return report


def require_choice(upgrade: UpgradeChoice, expect: Mapping[str, int], only: Sequence[str], skip: Sequence[str]) -> None:
    """Raise UsageError for invalid values of these arguments."""
    if isinstance(upgrade, bool) or not (upgrade in ("none", "auto") or isinstance(upgrade, int)):
        raise UsageError(f"upgrade={upgrade!r} is no opset; give a number, 'auto' or 'none'.")
    require_expected_counts(expect)
    for names in (only, skip):
        if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
            raise UsageError("only and skip are shell patterns of node names, as only='/encoder/*'.")


def require_target(target: str, ep: str | None = None) -> None:
    """Raise UsageError for an unknown target or execution provider."""
    resolve_provider(target, ep)
