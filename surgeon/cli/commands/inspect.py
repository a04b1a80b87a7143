"""The command `surgeon inspect`: shows what is in a model."""

from surgeon.cli.options import derived_command
from surgeon.cli.report_file import emit


@derived_command("inspect", {"source": "MODEL"})
def inspect(source: str) -> None:
    """Show the inputs, outputs, opsets, ops, custom ops and weight sizes of MODEL.  Weights are not read.
    Example: surgeon inspect model.onnx --json
    """
    from surgeon.targets.inspection.model_summary import inspect as look

    emit([look(source)])
