"""The command `surgeon diff`: lists the differences between two models."""

from surgeon.cli.command_group import CHECK_FAILED
from surgeon.cli.options import derived_command
from surgeon.cli.report_file import emit, require_report_path


@derived_command("diff", {"first": "FIRST", "second": "SECOND"})
def diff(first: str, second: str, report_path: str | None) -> None:
    """List the differences between FIRST and SECOND: nodes, attributes, constants, weights, dtypes and shapes.

    Nodes are matched by their ops and neighbours, not by their names.  A difference that occurs at many sites is listed
    once.  No model is run; to compare outputs, use surgeon compare.  Metadata, doc strings, producer and IR version are
    listed last and do not count.  Declared shapes of inner tensors are not compared.
    Example: surgeon diff before.onnx after.onnx
    Exit codes: 0 no difference that counts, 1 a difference
    """
    from surgeon.display.diff.diff_models import diff as run

    require_report_path(report_path, first, second)
    found = run(first, second)
    emit([found], CHECK_FAILED if found.differs else 0, report_path=report_path)
