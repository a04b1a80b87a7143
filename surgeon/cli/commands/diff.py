"""The command `surgeon diff`: shows how two models differ."""

import sys
from typing import TYPE_CHECKING, TextIO

import click

from surgeon.cli.options import CHECK_FAILED, explain_invalid_names
from surgeon.cli.report_file import emit_result, report_option, require_report_path
from surgeon.display.terminal.console import labelled_line_printer, make_console
from surgeon.display.terminal.sanitise import sanitise
from surgeon.text import seconds_text

if TYPE_CHECKING:
    from surgeon.display.diff.model_diff import ModelDiff

MAX_CHANGES = 40  # changes that are printed


@click.command(short_help="Say how two models differ, node by node.")
@click.argument("source", metavar="FIRST")
@click.argument("second", metavar="SECOND")
@report_option("what differs")
@click.option("--json", "as_json", is_flag=True, help="Print what differs as JSON.")
@explain_invalid_names
def diff(source: str, second: str, report_path: str | None, as_json: bool) -> None:
    """Say how FIRST and SECOND differ: nodes that went and came, attributes, constants, weights, dtypes and shapes.

    Nodes are matched by what they are and what is around them, not by their names; what differs alike in many sites is
    told once.  Nothing is run: whether both compute the same is for surgeon compare.  What models tell of themselves
    (metadata, doc strings, producer, IR version) comes last and is no difference; what they state of the shapes of
    inner tensors is not looked at.  Exit codes: 0 no difference but names and what is told, 1 a difference, 2 bad
    input.  Example: surgeon diff before.onnx after.onnx
    """
    from surgeon.display.diff.diff_models import diff as run

    require_report_path(report_path, source, second)
    found = run(source, second)
    emit_result(found, lambda: print_diff(found, sys.stdout), report_path, as_json)
    if found.differs:
        click.get_current_context().exit(CHECK_FAILED)


def print_diff(found: "ModelDiff", stream: TextIO) -> None:
    """Print the differences, one per line, and how much is equal."""
    from surgeon.display.content.diff import change_words, common_nodes_text, no_difference_text
    from surgeon.text import and_more

    line = labelled_line_printer(make_console(stream), 11)
    line("same", common_nodes_text(found))
    last = ""
    for change in found.changes[:MAX_CHANGES]:
        line("" if change.kind == last else change.kind, sanitise(change_words(change)))
        last = change.kind
    more = and_more(len(found.changes) - MAX_CHANGES, "changes").lstrip()
    if more:
        line("", f"{more} (--json has all)")
    if not found.differs:
        line("differs", no_difference_text(found))
    for place, note in enumerate(found.told[:MAX_CHANGES]):
        line("" if place else "told", sanitise(note))
    if more := and_more(len(found.told) - MAX_CHANGES).lstrip():
        line("", f"{more} (--json has all)")
    line("time", seconds_text(found.seconds))
