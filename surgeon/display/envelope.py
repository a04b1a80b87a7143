"""Results as JSON: one envelope for the output of commands, for report files, and inside pages."""

from collections.abc import Sequence
from typing import Any

from surgeon.display.registry import builder_of
from surgeon.errors import SurgeonError
from surgeon.result_base import json_of
from surgeon.versions import versions

SCHEMA = "surgeon.report/2"
"""The schema of the envelope; the number is raised when a key goes or means something else."""


def envelope(
    results: Sequence[object], command: str = "", code: int | None = None, error: SurgeonError | None = None
) -> dict[str, Any]:
    """Results as JSON can hold them, of the same form for every command.  Raises UsageError for an unknown type.

    results: none after an error without a result.  command: the command line, "" for none.  code: its exit code, None
    for none.  error: the error that ended the command.
    """
    builders = [builder_of(result) for result in results]
    records = [{"kind": one.kind, "result": one.data(result)} for one, result in zip(builders, results, strict=True)]
    kinds = {one.kind for one in builders} or {"error"}
    kind = kinds.pop() if len(kinds) == 1 else "several"
    head = {"schema": SCHEMA, "kind": kind, "versions": versions(), "command": command, "exit_code": code}
    said = {} if error is None else {"error": json_of(error, "what where next detail")}
    return {**head, **said, "results": records}
