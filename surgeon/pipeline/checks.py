"""The checks of a run, and how its result is saved."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

from surgeon.file.external_data.new_file import named_data_file
from surgeon.file.save import ExternalDataMode
from surgeon.proof.check_options import CheckOptions, require_check, resolve_options

if TYPE_CHECKING:
    from surgeon.runtime.sessions.ep_library import PluginProvider

Progress = Callable[[str, int], None]
Whole = Literal["always", "auto", "never"]
WORDS: dict[str, tuple[bool, Whole]] = {
    "auto": (True, "auto"),
    "sites": (True, "auto"),
    "decode": (True, "auto"),
    "model": (False, "always"),
    "both": (True, "always"),
    "none": (False, "never"),
}
"""By the user's value of `check`: whether sites are proved, and whether whole models are compared."""


class PhaseTimer:
    """Seconds by phase; time in an inner phase does not count for the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the body of the context."""
        start = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._inner.pop()
            self._inner[-1] += spent


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of a change, and their options."""

    sites: bool = True
    """Whether each site of rules is proved, and rolled back if its proof fails."""
    whole: Whole = "auto"
    """Whether whole models are compared; "auto": if a change has no sites and does not follow from the nodes."""
    require_proof: bool = False
    """Whether an unproved result is an error, and an unproved site is rolled back."""
    options: CheckOptions = field(default_factory=CheckOptions)
    """Seeds, sizes, tolerances and limits of the runs."""
    dry_run: bool = False
    """Whether to only report: check nothing and write nothing."""
    plugin: "PluginProvider | None" = None
    """Execution provider of a plugin, under which proofs run replacements; None for the runtime of the target."""
    progress: Progress | None = None
    """Called after each rewrite with the rule's name and the number of rewrites, and at each phase of the checks."""
    timer: PhaseTimer = field(default_factory=PhaseTimer, compare=False)
    """Durations of the phases of one transform."""

    @classmethod
    def named(
        cls,
        check: str,
        known: Sequence[str],
        require_proof: bool,
        options: CheckOptions | None,
        *,
        dry_run: bool = False,
    ) -> Self:
        """The checks for a value of `check`.  known: allowed values.  Raises UsageError for invalid arguments."""
        found = resolve_options(options)
        found.require()
        require_check(check, known, require_proof)
        return cls(*WORDS[check], require_proof, found, dry_run)

    @property
    def is_off(self) -> bool:
        """Whether nothing is proved or compared."""
        return not self.sites and self.whole == "never"


@dataclass(frozen=True, slots=True)
class Saving:
    """How the result of a run is saved."""

    output: str | os.PathLike[str] | None = None
    """Path to write, exactly in the user's spelling; None for models in memory."""
    external_data: ExternalDataMode = "auto"
    """How to write data files."""
    force: bool = False
    """Whether to overwrite a data file of other content."""

    def __post_init__(self) -> None:
        named_data_file(self.external_data, self.output or "")  # raises before any work
