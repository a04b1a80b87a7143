"""The command `surgeon explain`: why rules nearly fire, but do not."""

from collections.abc import Sequence
from typing import Any

import click

from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit_result, require_report_path


@derived_command("explain", {"source": "MODEL"}, top=Spelling(type=click.IntRange(min=1)))
def explain(
    source: str,
    rules: Sequence[str],
    node: str | None,
    verbose: bool,
    report_path: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Say where rules nearly fire in MODEL, nearest misses first, what differs there, and what change would help.

    Several rules run together first, in memory; the misses are those of the model that they leave.  Nothing is written.

    Example: surgeon explain in.onnx --rules gelu
    """
    from surgeon.diagnostics.explanation import explanations
    from surgeon.display.content.explanation import document

    require_report_path(report_path, source)
    found = explanations(source, rules, node=node, **settings)
    data = {"rules": [item.to_dict() for item in found]}
    emit_result(found, report_path, as_json=as_json, data=data, document=document(found, verbose=verbose))
