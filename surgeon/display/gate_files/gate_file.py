"""The files that the gate writes for other programs, by format."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from surgeon.automation.gate.gate_result import GateResult
from surgeon.display.gate_files import junit, markdown, sarif
from surgeon.errors import ModelFileError, UsageError
from surgeon.file.io.atomic_file import is_stream, write_text


class GateFormat(NamedTuple):
    """A format of files."""

    first: str
    """The beginning of each file, by which a file of an earlier run is known."""
    text: Callable[[GateResult], str]
    """The text for a result."""


FORMATS: Mapping[str, GateFormat] = {
    "sarif": GateFormat(f'{{\n "$schema": "{sarif.SCHEMA}"', sarif.sarif_text),
    "junit": GateFormat(junit.FIRST, junit.junit_text),
    "markdown": GateFormat(markdown.FIRST, markdown.markdown_text),
}
"""The formats by the name of the option."""


def require_gate_files(paths: Mapping[str, str], others: Iterable[str | None] = ()) -> None:
    """Raise an error, before the work begins, for a file that cannot be written or would overwrite another file.

    paths: by format.  others: further files that are written.
    """
    every = [os.path.realpath(path) for path in (*paths.values(), *others) if path is not None]
    if len(set(every)) < len(every):
        raise UsageError("Two outputs have one file. Give each its own.")
    for name, path in paths.items():
        if is_stream(path):
            continue
        is_there = os.path.exists(path)
        first = FORMATS[name].first.encode()
        try:
            with open(path, "a+b") as file:
                file.seek(0)
                is_own = file.read(len(first)) in (b"", first)
            if not is_there:
                os.unlink(path)
        except OSError as error:
            raise ModelFileError(f"Cannot write --{name} {path} ({error.strerror}). Choose another file.") from None
        if not is_own:
            raise UsageError(f"--{name} would overwrite {path}, which is of another kind. Choose another file.")


def write_gate_files(found: GateResult, paths: Mapping[str, str]) -> None:
    """Write a result to files atomically.  paths: by format."""
    for name, path in paths.items():
        try:
            write_text(path, FORMATS[name].text(found), "backslashreplace")
        except OSError as error:
            raise ModelFileError(f"Cannot write --{name} {path}: {error.strerror}.") from None
