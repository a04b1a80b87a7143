"""Which operators draw random numbers, so that no two runs of them are alike."""

from onnx import NodeProto

ALWAYS_RANDOM = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Sampling")
)
"""The operators that draw in every run."""
RANDOM = ALWAYS_RANDOM | {"Dropout", "BiasDropout", "BitmaskDropout", "BitmaskBiasDropout"}
"""Those, and the ones that draw where they are told that a model is in training."""


def is_random(node: NodeProto) -> bool:
    """Whether a node may draw random numbers: a Dropout only with its third input, which tells of training."""
    return node.op_type in ALWAYS_RANDOM or (node.op_type == "Dropout" and len(node.input) == 3)
