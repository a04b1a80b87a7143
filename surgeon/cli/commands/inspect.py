"""The command `surgeon inspect`: shows what is in a model."""

from surgeon.cli.options import derived_command
from surgeon.cli.report_file import emit


@derived_command("inspect", {"source": "MODEL"})
def inspect(source: str) -> None:
    """Show opsets, ops, custom ops, inputs, outputs and the size of the weights of MODEL.  Payloads are not read.

    Example: surgeon inspect model.onnx --json
    """
    from surgeon.targets.inspection.model_summary import inspect as look

    emit([look(source)])
