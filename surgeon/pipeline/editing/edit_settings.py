"""How an edit, a merge or a split is checked and written: the arguments that these have in common."""

import os
from dataclasses import dataclass, field

from surgeon.file.save import ExternalDataMode
from surgeon.proof.check_options import CheckOptions


@dataclass(frozen=True, slots=True)
class EditSettings:
    """How an edit, a merge or a split is checked and written."""

    output: str | os.PathLike[str] | None
    """Path to write, as the user gave it; None for models in memory."""
    check: str
    """Which check runs: "model", "auto" or "none"."""
    require_proof: bool
    """Whether an unproved result is an error."""
    dry_run: bool = False
    """Whether to report only, and write nothing."""
    external_data: ExternalDataMode = "auto"
    """How to write data files."""
    force: bool = False
    """Whether to overwrite a data file of other content."""
    options: CheckOptions = field(default_factory=CheckOptions)
    """Seeds, sizes, tolerances and limits of the check."""
