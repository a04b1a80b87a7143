"""The command `surgeon explain`: why rules nearly fire, but do not."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit, require_report_path


@derived_command("explain", {"source": "MODEL"}, top=Spelling(type=click.IntRange(min=1)))
def explain(
    source: str,
    rules: Sequence[str],
    node: str | None,
    verbose: bool,
    report_path: str | None,
    **settings: Any,
) -> None:
    """Say where rules nearly fire in MODEL, nearest misses first, what differs there, and what change would help.

    Several rules run together first, in memory; the misses are those of the model that they leave.  Nothing is written.

    Example: surgeon explain in.onnx --rules gelu
    """
    from surgeon.diagnostics.explanation import explanations
    from surgeon.display.content.explanation import document
    from surgeon.display.terminal.terminal_renderer import show

    require_report_path(report_path, source)
    found = explanations(source, rules, node=node, **settings)
    emit([found], report_path=report_path, show=lambda: show(document(found, verbose=verbose), sys.stdout))
