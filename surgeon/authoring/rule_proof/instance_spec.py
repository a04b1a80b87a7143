"""One instance of a rule's pattern: the variant, the target, the opset, the shapes and the dtype."""

from dataclasses import dataclass

import onnx
from onnx import TensorProto

from surgeon.authoring.rule_proof.dtype_assignment import FLOAT_DTYPES
from surgeon.authoring.rule_proof.instances import CannotInstantiate, build_instance
from surgeon.authoring.rule_proof.pattern_arguments import PatternArguments
from surgeon.authoring.rule_proof.variants import PatternVariant
from surgeon.rules.matching.compiler import CompiledPattern


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """An instance to build and rewrite."""

    target: str
    """The target of the rewrite."""
    opset: int
    """The version of ai.onnx."""
    compiled: CompiledPattern
    """The pattern."""
    variant: PatternVariant
    """The form in which the pattern is written."""
    arguments: PatternArguments
    """The shapes and values of the captures."""
    dtype: int = FLOAT_DTYPES[0]
    """The preferred TensorProto.DataType."""

    def build(self) -> onnx.ModelProto | None:
        """The instance; None if no valid model has these settings."""
        pattern, arguments = self.compiled.pattern, self.arguments
        try:
            return build_instance(
                pattern, self.variant, self.opset, dtype=self.dtype, shapes=arguments.shapes, values=arguments.values
            )
        except CannotInstantiate:
            return None

    def dtype_name(self, model: onnx.ModelProto) -> str:
        """The dtype of the instance in reports: the preferred one, or that of an input if no input has it."""
        values = model.graph.input or model.graph.output
        found = [int(value.type.tensor_type.elem_type) for value in values]
        numbers = [dtype for dtype in found if dtype != TensorProto.BOOL] or found
        instead = next((dtype for dtype in found if dtype in FLOAT_DTYPES), numbers[0])
        dtype = self.dtype if self.dtype in found else instead
        return onnx.helper.tensor_dtype_to_np_dtype(dtype).name if dtype != TensorProto.STRING else "string"
