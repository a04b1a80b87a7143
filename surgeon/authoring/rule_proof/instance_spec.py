"""One case of a rule's proof: a pattern written one way, for one target, at one opset, of given shapes and dtype."""

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
    """What to write and rewrite.  opset: of ai.onnx.  dtype: the TensorProto.DataType asked for."""

    target: str
    opset: int
    compiled: CompiledPattern
    variant: PatternVariant
    layout: PatternArguments
    dtype: int = FLOAT_DTYPES[0]

    def build(self) -> onnx.ModelProto | None:
        """The instance; None where there is no such model."""
        pattern, layout = self.compiled.pattern, self.layout
        try:
            return build_instance(
                pattern, self.variant, self.opset, dtype=self.dtype, shapes=layout.shapes, values=layout.values
            )
        except CannotInstantiate:
            return None

    def dtype_name(self, model: onnx.ModelProto) -> str:
        """What its instance is told by: the dtype asked for, or where no input has that, one of floats or numbers."""
        values = model.graph.input or model.graph.output
        found = [int(value.type.tensor_type.elem_type) for value in values]
        numbers = [dtype for dtype in found if dtype != TensorProto.BOOL] or found
        instead = next((dtype for dtype in found if dtype in FLOAT_DTYPES), numbers[0])
        dtype = self.dtype if self.dtype in found else instead
        return onnx.helper.tensor_dtype_to_np_dtype(dtype).name if dtype != TensorProto.STRING else "string"
