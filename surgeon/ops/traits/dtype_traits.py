"""Facts for a change of dtype that no schema has.

A schema allows float16 for the scales of Resize, but the sizes computed from them would change; only the text of an op
says that an attribute is the dtype of a random tensor.
"""

from collections.abc import Mapping
from types import MappingProxyType

from onnx import TensorProto

from surgeon.ops.traits.op_traits import Slots

FIXED_DTYPE_INPUTS: Mapping[str, Slots] = MappingProxyType(
    {
        "BitCast": (0,),  # reads bits
        "Resize": (1, 2),  # regions and scales, from which sizes are computed
        "Upsample": (1,),
        "Dropout": (1,),
        "Pad": (3,),  # axes, which onnx's shape inference reads as int64 in any case
    }
)
"""Inputs that keep their dtype when the others change."""
FIXED_DTYPE_OUTPUTS: Mapping[str, Slots] = MappingProxyType(
    {
        "LayerNormalization": (1, 2),  # in the dtype of stash_type
        "SimplifiedLayerNormalization": (1,),
        "com.microsoft::SkipLayerNormalization": (1, 2),
        "com.microsoft::SkipSimplifiedLayerNormalization": (1, 2),
    }
)
"""Outputs whose dtype does not follow the inputs."""
CAST = "Cast"
"""The operator that converts dtypes."""
QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
"""The operators that turn floats into integers and back, with a scale."""
DTYPE_ATTRIBUTES: Mapping[str, tuple[str, int | None]] = MappingProxyType(
    {
        "Cast": ("to", None),
        "ConstantOfShape": ("value", TensorProto.FLOAT),
        "EyeLike": ("dtype", None),
        "RandomNormal": ("dtype", TensorProto.FLOAT),
        "RandomUniform": ("dtype", TensorProto.FLOAT),
        "RandomNormalLike": ("dtype", None),
        "RandomUniformLike": ("dtype", None),
        "Bernoulli": ("dtype", None),
        "BlackmanWindow": ("output_datatype", TensorProto.FLOAT),
        "HammingWindow": ("output_datatype", TensorProto.FLOAT),
        "HannWindow": ("output_datatype", TensorProto.FLOAT),
        "MelWeightMatrix": ("output_datatype", TensorProto.FLOAT),
        "DequantizeLinear": ("output_dtype", None),
    }
)
"""The attribute that holds the dtype of the output, and the default; None for the dtype of an input."""


def dtype_follows_input(op: str) -> bool:
    """Whether the output follows a changed input dtype when the dtype attribute is absent."""
    return op == "DequantizeLinear"


INTERMEDIATE_DTYPE_ATTRIBUTES: Mapping[str, tuple[str, int | None]] = MappingProxyType(
    {
        "Attention": ("softmax_precision", None),
        "GroupNormalization": ("stash_type", None),
        "LayerNormalization": ("stash_type", TensorProto.FLOAT),
        "RMSNormalization": ("stash_type", TensorProto.FLOAT),
        "SimplifiedLayerNormalization": ("stash_type", TensorProto.FLOAT),
    }
)
"""The attribute that holds the dtype of intermediate results, and the default; None for the dtype of an input."""
UNSUPPORTED_BODY_DTYPES: Mapping[str, frozenset[int]] = MappingProxyType(
    {
        "SoftmaxCrossEntropyLoss": frozenset({TensorProto.BFLOAT16}),  # its body has a NegativeLogLikelihoodLoss
        "MeanVarianceNormalization": frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16}),  # its body adds a float32
    }
)
"""Dtypes that the schema allows, but not the function body that ONNX defines for the operator."""
SEQUENCE_LOOPS = frozenset(("SequenceMap",))
"""Operators whose bodies run on elements of sequences."""
QUANTIZING = frozenset(
    (
        *("QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "BitCast", "StringNormalizer"),
        *(f"com.microsoft::{op}" for op in ("QuantizeLinear", "MatMulNBits", "MatMulBnb4", "MatMulFpQ4", "QMoE")),
        *(f"com.microsoft::{op}" for op in ("MatMulIntegerToFloat", "GatherBlockQuantized", "QGemm", "QAttention")),
        *(f"com.microsoft::{op}" for op in ("DynamicQuantizeMatMul", "DynamicQuantizeLSTM")),
        "com.microsoft::QEmbedLayerNormalization",
    )
)
"""Operators, by `Node.op`, that round by design: in a wider dtype they would compute something else."""
SELECTING = frozenset(("ArgMax", "ArgMin", "NonMaxSuppression", "TopK"))
"""Operators that return indices of selected elements, such as the largest."""
SIGMOIDS = frozenset(("Sigmoid",))
"""Operators that turn logits into probabilities."""
PERIODIC = frozenset(("Cos", "Sin", "Tan"))
"""Operators whose error is the absolute rounding error of the input."""
LOGARITHMS = frozenset(("Log",))
"""Operators with large results near zero, and finite results for huge inputs."""
EXPONENTIALS = frozenset(("Exp",))
"""Operators that overflow float16 for inputs above 11."""
UNBOUNDED_SUMS = frozenset(("ReduceL1", "ReduceSum", "ReduceSumSquare"))
"""Reductions whose results grow with the number of elements."""
STEP_FUNCTIONS = frozenset(("Ceil", "Floor", "Mod", "Round"))
"""Operators that are discontinuous at many inputs."""
DISCONTINUOUS = STEP_FUNCTIONS | {"Sign"}
"""The same, and operators that are discontinuous only at zero."""
STEEP_NEAR_ZERO = frozenset(("Sqrt", "Reciprocal", "Pow", "Log"))
"""Operators that amplify errors of inputs near zero."""
DIVERGING_AT_ZERO = frozenset(("Reciprocal", "Log"))
"""Those of them whose result itself diverges at zero; a root amplifies errors only if something is divided by it."""
POWERS: Mapping[str, float | None] = MappingProxyType({"Pow": None, "Reciprocal": -1.0, "Sqrt": 0.5})
"""The exponent of operators that raise to a power; None for the second input."""
CLIP_BOUNDS: Mapping[str, Slots] = MappingProxyType({"Clip": (1, 2), "Max": (0, 1, 2, 3), "Min": (0, 1, 2, 3)})
"""Inputs that may be bounds: a bound beyond the range of a dtype has no effect there."""
