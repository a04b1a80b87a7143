"""Options of several commands, declared once; `surgeon.proof.check_options.CheckOptions` has those of checks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckChoice:
    """Which checks run."""

    check: str = "auto"
    """sites: prove each site separately.  model: run the whole model before and after under ONNX Runtime, and compare.
    auto: the same, but only if the result does not follow from the graph itself.  both: sites and model.
    decode: sites, and compare decoding of the new model with the original on each sequence.  none: no check."""
    require_proof: bool = False
    """Treat unproved results as failures."""


@dataclass(frozen=True)
class Files:
    """How the output file is written."""

    external_data: str = "auto"
    """How to store external data.  auto, copy: share the files of IN if OUT is in the same folder, otherwise copy them.
    share: fail if OUT is in another folder.  inline: store the data in OUT.  weights/m.data: store all weights of at
    least 1KiB in this file, relative to the folder of OUT; m.data,least=1MB states another size.  Default: auto."""
    force: bool = False
    """Overwrite OUT even if it is not an ONNX file, and data files even if their contents differ."""
    dry_run: bool = False
    """Report the changes, but do not write OUT."""


@dataclass(frozen=True)
class Output:
    """How the result is shown."""

    report_path: str | None = None
    """Write a report: HTML if FILE ends in .html, otherwise JSON."""
    as_json: bool = False
    """Print the result as JSON."""
    diff: bool = False
    """Print the changed nodes before and after, and changed inputs, outputs, weights and metadata."""
    verbose: bool = False
    """Print all details before the summary."""
    quiet: bool = False
    """Print only errors and unproved results."""
