"""The command `surgeon diff`: shows how two models differ."""

import click

from surgeon.cli.command_group import CHECK_FAILED
from surgeon.cli.options import derived_command
from surgeon.cli.report_file import emit_result, require_report_path


@derived_command("diff", {"first": "FIRST", "second": "SECOND"})
def diff(first: str, second: str, report_path: str | None, as_json: bool) -> None:
    """Say how FIRST and SECOND differ: nodes that went and came, attributes, constants, weights, dtypes and shapes.

    Nodes are matched by what they are and what is around them, not by their names; what differs alike in many sites is
    told once.  Nothing is run: whether both compute the same is for surgeon compare.  What models tell of themselves
    (metadata, doc strings, producer, IR version) comes last and is no difference; what they state of the shapes of
    inner tensors is not looked at.  Exit codes: 0 no difference but names and what is told, 1 a difference, 2 bad
    input.  Example: surgeon diff before.onnx after.onnx
    """
    from surgeon.display.diff.diff_models import diff as run

    require_report_path(report_path, first, second)
    found = run(first, second)
    emit_result(found, report_path, as_json)
    if found.differs:
        click.get_current_context().exit(CHECK_FAILED)
