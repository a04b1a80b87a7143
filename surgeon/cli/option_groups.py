"""Options of several commands, declared once; `surgeon.proof.check_options.CheckOptions` has those of checks."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CheckChoice:
    """Which checks run."""

    check: str = "auto"
    """sites: prove every rewritten site by itself; model: run both whole models under ONNX Runtime and compare;
    auto: the same, where it does not follow from the nodes; both: sites and model; none: nothing.
    """
    require_proof: bool = False
    """Treat a result that cannot be proved as a failed one."""


@dataclass(frozen=True)
class Files:
    """How the output file is written."""

    external_data: Literal["auto", "share", "copy", "inline"] = "auto"
    """Data files where OUT is in another folder: copy (auto), or put them into the model (inline); in the folder of IN
    they are shared.  share: refuse other folders.
    """
    force: bool = False
    """Overwrite a file that is not a model, or a data file of other content."""
    dry_run: bool = False
    """Say what would be done and write nothing."""


@dataclass(frozen=True)
class Output:
    """How the result is shown."""

    report_path: str | None = None
    """Write the result to a file: a page where its name ends in .html, else JSON."""
    as_json: bool = False
    """Print the result as JSON."""
    diff: bool = False
    """Print the nodes before and after, site by site; of an edit, the lines of the model that differ."""
    verbose: bool = False
    """Print all details, and then the summary."""
    quiet: bool = False
    """Print errors only, and results that could not be proved."""
