"""The command `surgeon explain`: shows why rules almost match, but do not."""

from collections.abc import Sequence
from typing import Any

import click

from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit, require_report_path


@derived_command("explain", {"source": "MODEL"}, top=Spelling(type=click.IntRange(min=1)))
def explain(
    source: str, rules: Sequence[str], node: str | None, verbose: bool, report_path: str | None, **settings: Any
) -> None:
    """Show where rules almost match in MODEL, why they do not, and which change would help.

    The nearest miss comes first.  With several rules, surgeon first applies them in memory and explains the result.
    Nothing is written.
    Example: surgeon explain in.onnx --rules gelu
    Exit codes: 0 success, with or without near misses
    """
    from surgeon.diagnostics.explanation import explanations

    require_report_path(report_path, source)
    found = explanations(source, rules or None, node=node, **settings)
    emit([found], report_path=report_path, verbose=verbose)
