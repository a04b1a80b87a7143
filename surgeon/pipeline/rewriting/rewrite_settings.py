"""The arguments of `rewrite`: what they may be, and what follows from several together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surgeon.errors import UsageError
from surgeon.file.model_like import is_in_memory
from surgeon.file.save import ExternalDataMode
from surgeon.pipeline.acceptance.kernel_support import resolve_provider
from surgeon.pipeline.rewriting.greedy_driver import NodeFilter, Progress
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
    """The arguments of `rewrite`.

    for_many: the same rules run on other models too, so a pattern that matches no node here is reported, not refused.
    """

    output: Path | None
    target: str
    ep: str | None
    check: Check
    choice: NodeFilter
    require_proof: bool = False
    keep_going: bool = False
    approximate: bool = False
    dry_run: bool = False
    external_data: ExternalDataMode = "auto"
    force: bool = False
    expect: Mapping[str, int] = field(default_factory=dict)
    options: CheckOptions = field(default_factory=CheckOptions)
    progress: Progress | None = None
    inline: Sequence[str] = ()
    upgrade: UpgradeChoice = "none"
    for_many: bool = False

    def refuse_misuse(self, source: Any) -> None:
        """Raise UsageError for arguments that do not exist or do not fit together."""
        require_target(self.target, self.ep)
        self.options.require()
        in_memory = is_in_memory(source)
        require_check(self.check, CHECKS, self.require_proof and not self.dry_run)
        if self.check in ("sites", "none") and (self.options.inputs or self.options.layers):
            raise UsageError(
                "Inputs and layers are for the check of the whole model, which is off; choose the check model or both."
            )
        require_output(in_memory, self.output, self.dry_run)
        require_choice(self.upgrade, self.expect, self.choice.only, self.choice.skip)

    def edit_arguments(self) -> dict[str, Any]:
        """How an edit before the rules is done."""
        check = "none" if self.check == "none" or self.dry_run else "auto"
        return {"target": self.target, "check": check, "require_proof": self.require_proof, "options": self.options}

    def with_proof_warmup(self) -> Progress | None:
        """What the run tells its progress: with the first rewrite, proofs get ready while the rest is matched."""
        if self.dry_run or self.check not in ("sites", "both"):
            return self.progress
        progress, is_started = self.progress, False

        def tell(rule: str, count: int) -> None:
            nonlocal is_started
            if not is_started:
                # Not at the top: a run without proofs is spared its weight.
                from surgeon.proof.site.worker_proofs import start

                is_started = True
                start()
            if progress is not None:
                progress(rule, count)

        return tell


def require_choice(upgrade: UpgradeChoice, expect: Mapping[str, int], only: Sequence[str], skip: Sequence[str]) -> None:
    """Raise UsageError for what does not say where and how often rules are to fire."""
    if isinstance(upgrade, bool) or not (upgrade in ("none", "auto") or isinstance(upgrade, int)):
        raise UsageError(f"upgrade={upgrade!r} is no opset; give a number, 'auto' or 'none'.")
    require_expected_counts(expect)
    for names in (only, skip):
        if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
            raise UsageError("only and skip are shell patterns of node names, as only='/encoder/*'.")


def require_target(target: str, ep: str | None = None) -> None:
    """Raise UsageError for a target, or an execution provider, that there is not."""
    resolve_provider(target, ep)
