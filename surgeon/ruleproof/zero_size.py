"""Two models on tensors without elements, where there is little to compare: shapes, dtypes and who refuses."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from surgeon.inputs.inputs import InputsUnknown, Values, synthesise
from surgeon.ruleproof.comparing import held
from surgeon.ruleproof.result import InstanceResult, Standing


def compare_zero_size(
    model: onnx.ModelProto, rewritten: onnx.ModelProto, custom_ops: Sequence[str | Path] = (), slack: float = 0.0
) -> InstanceResult:
    """What both make of an input without elements.

    Shapes and dtypes must agree, and the values of what has elements all the same, such as a sum over nothing.  Where a
    kernel refuses what its op allows, the op's definition is asked.
    custom_ops, slack: as for `held`.
    """
    try:
        feeds = synthesise(model, seed=0, dims={})
    except InputsUnknown as unknown:
        return InstanceResult(Standing.UNPROVED, f"inputs cannot be made: {unknown.reason}", is_instance=False)
    inputs = [(Values.USUAL, feeds)]
    found = held(model, rewritten, inputs, custom_ops, slack)
    if found.standing is Standing.FAILED and found.error is None:  # it does not run
        defined = held(model, rewritten, inputs, custom_ops, slack, by_definition=True)
        if defined.standing is Standing.PROVED:
            return replace(defined, reason=f"by what the ops are defined to do; but {found.reason}")
    return replace(found, reason=f"where an input has no elements, {found.reason}") if found.reason else found
