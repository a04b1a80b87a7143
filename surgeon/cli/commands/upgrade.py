"""The command `surgeon upgrade`: raises the opset of a model."""

from typing import Any

from surgeon.cli.options import OF_SITES, derived_command
from surgeon.cli.report_file import run_and_report


@derived_command("upgrade", {"source": "IN", "output": "OUT"}, without=OF_SITES, shared="quiet verbose")
def upgrade(source: str, output: str, opset: int, **settings: Any) -> None:
    """Raise the opset of IN without changing what any node computes, check the result, and write OUT.

    IN and OUT may be the same file.
    Example: surgeon upgrade in.onnx out.onnx --opset 21
    Exit codes: 1 OUT computes different results from IN
    """
    from surgeon.pipeline.upgrading.upgrade import upgrade as run

    run_and_report(lambda _, **given: (output, run(source, opset, output, **given)), (source, output), **settings)
