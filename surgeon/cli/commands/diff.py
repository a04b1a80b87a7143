"""The command `surgeon diff`: shows how two models differ."""

from surgeon.cli.command_group import CHECK_FAILED
from surgeon.cli.options import derived_command
from surgeon.cli.report_file import emit, require_report_path


@derived_command("diff", {"first": "FIRST", "second": "SECOND"})
def diff(first: str, second: str, report_path: str | None) -> None:
    """Say how FIRST and SECOND differ: nodes that went and came, attributes, constants, weights, dtypes and shapes.

    Nodes are matched by their ops and their neighbours, not by their names; equal differences at many sites are listed
    once.  Nothing is run: surgeon compare says whether both compute the same.  Metadata, doc strings, producer and IR
    version come last and do not count; declared shapes of inner tensors are not compared.  Exit codes: 0 no difference
    that counts, 1 a difference, 2 bad input.
    Example: surgeon diff before.onnx after.onnx
    """
    from surgeon.display.diff.diff_models import diff as run

    require_report_path(report_path, first, second)
    found = run(first, second)
    emit([found], CHECK_FAILED if found.differs else 0, report_path=report_path)
