"""Where the dtype of an input or output is not its type variable's: what schemas allow and a change of dtype must not.

A schema lets Resize's scales be of float16, and says nothing of what becomes of the sizes then; that the dtype of a
random tensor is an attribute, it says in words alone.
"""

from collections.abc import Mapping
from types import MappingProxyType

from onnx import TensorProto

from surgeon.ops.traits.op_traits import Slots

STAYING_INPUTS: Mapping[str, Slots] = MappingProxyType(
    {
        "BitCast": (0,),  # it reads bits
        "Resize": (1, 2),  # regions and scales are of what they are measured in, not of the pictures
        "Upsample": (1,),
        "Dropout": (1,),
        "Pad": (3,),  # onnx's inference of shapes reads these axes as int64, whatever they are
    }
)
"""Slots of inputs that stay as they are, whatever becomes of the others."""
STAYING_OUTPUTS: Mapping[str, Slots] = MappingProxyType(
    {
        "LayerNormalization": (1, 2),  # of the dtype that its stash_type says
        "SimplifiedLayerNormalization": (1,),
        "com.microsoft::SkipLayerNormalization": (1, 2),
        "com.microsoft::SkipSimplifiedLayerNormalization": (1, 2),
    }
)
"""Slots of outputs that are of a dtype of their own."""
CASTING = "Cast"
"""What makes one dtype of another."""
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
"""The attribute that says of which dtype the output is, and what it is where that is left out; None: an input's."""


def follows_input(op: str) -> bool:
    """Whether an operator whose attribute is left out makes what it was given, also once that is of another dtype."""
    return op == "DequantizeLinear"


UNTAKEN_BY_BODIES: Mapping[str, frozenset[int]] = MappingProxyType(
    {
        "SoftmaxCrossEntropyLoss": frozenset({TensorProto.BFLOAT16}),  # there is no NegativeLogLikelihoodLoss in it
        "MeanVarianceNormalization": frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16}),  # it adds a float32
    }
)
"""Dtypes that an op's schema allows and the body that ONNX defines for it does not."""
OF_LISTS = frozenset(("SequenceMap",))
"""Those whose bodies are given elements of sequences."""
CHOOSING = frozenset(("ArgMax", "ArgMin", "NonMaxSuppression", "TopK"))
"""Those that make places of what they read: of the largest elements, say."""
SQUASHING = frozenset(("Sigmoid",))
"""Those that make a probability p of x = log(p / (1 - p))."""
TURNING = frozenset(("Cos", "Sin", "Tan"))
"""Those whose results turn round by the size of what they read, so that its rounding is their error."""
LOGARITHMS = frozenset(("Log",))
"""Those that make much of what is nearly zero, and finite numbers of what is very large."""
EXPONENTIALS = frozenset(("Exp",))
"""Those that leave half precision at a dozen."""
TOTALS = frozenset(("ReduceL1", "ReduceSum", "ReduceSumSquare"))
"""Those whose results grow with how many numbers they add up."""
STEPPING = frozenset(("Ceil", "Floor", "Mod", "Round"))
"""Those whose results leap where what they read moves a little."""
LEAPING = STEPPING | {"Sign"}
"""The same, and those that leap at zero alone."""
ROOTS = frozenset(("Sqrt", "Reciprocal", "Pow", "Log"))
"""Those that make much of what is close to zero."""
STEEP = frozenset(("Reciprocal", "Log"))
"""Those of them that do so at once, where of a root only a division does."""
POWERS: Mapping[str, float | None] = MappingProxyType({"Pow": None, "Reciprocal": -1.0, "Sqrt": 0.5})
"""The powers that these raise to; None: what the second input says."""
BOUNDING: Mapping[str, Slots] = MappingProxyType({"Clip": (1, 2), "Max": (0, 1, 2, 3), "Min": (0, 1, 2, 3)})
"""Slots of bounds: one beyond all numbers of a dtype bounds nothing there."""
