"""surgeon for `torch.onnx.ONNXProgram`: a program as a kind of model, and a rewrite in place.

torch.onnx.export has no step after the export, so rules run on the program that it returns.  Tested with torch 2.13
and 2.14.
"""

from collections.abc import Mapping
from typing import Any

import onnx
import torch

from surgeon.file.external_data.held_tensors import HeldModel, HeldTensors
from surgeon.file.kinds import Kind
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.rewrite import rewrite
from surgeon.pipeline.rewriting.rule_set import Rules


class OnnxProgramKind(Kind):
    """A `torch.onnx.ONNXProgram`: its model is one of onnx_ir."""

    title = "a torch.onnx.ONNXProgram"

    def takes(self, source: object) -> bool:
        """Whether it is an ONNXProgram."""
        return isinstance(source, torch.onnx.ONNXProgram)

    def exported(self, source: Any) -> HeldModel:
        """The program's model, with references to its large tensors."""
        from surgeon.integrations.onnx_ir import KIND as MODELS  # not at the top: only a program has imported onnx_ir

        return MODELS.exported(source.model)

    def give(self, source: Any, made: onnx.ModelProto, held: Mapping[str, HeldTensors]) -> Any:
        """A new program, which is called as the given one."""
        from surgeon.integrations.onnx_ir import KIND as MODELS

        return torch.onnx.ONNXProgram(MODELS.give(source.model, made, held), source.exported_program)


KIND = OnnxProgramKind()


def rewrite_(program: Any, rules: Rules | None = None, **options: Any) -> RewriteReport:
    """Run rules on a program in place, and release its session: it would answer from the graph before.

    A site whose proof fails is rolled back, and the others are kept.

    Args:
        program: a `torch.onnx.ONNXProgram`.
        rules: as for `surgeon.rewrite`.
        options: as for `surgeon.rewrite`, for example `require_proof=True`.

    Returns:
        The report.

    Raises:
        SurgeonError: bad input; the program is unchanged.

    Examples:
        >>> import torch
        >>> from surgeon.integrations.torch import rewrite_
        >>> program = torch.onnx.export(torch.nn.GELU(), (torch.ones(2, 4),), verbose=False)
        >>> rewrite_(program, "gelu").outcome
        'proved'
    """
    from surgeon.integrations.onnx_ir import InPlace

    given = InPlace(program.model)
    made, report = rewrite(given, rules, **{"keep_going": True, **options})
    if made is not given:
        program.release()
    return report
