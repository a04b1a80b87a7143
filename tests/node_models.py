"""Models of one node, for each op that rules write: whether ONNX Runtime's CPU provider loads them is the truth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import onnx
from onnx import TensorProto, helper

from surgeon.authoring.rule_proof.opset_range import newest_opset
from surgeon.ops.schemas import schema, variables
from surgeon.runtime.provider_support import ProviderSupport

FLOAT = TensorProto.FLOAT
NUMBERS = {
    "float": FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "double": TensorProto.DOUBLE,
}
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class OneNode:
    """A node by op, shapes of its inputs and attributes.

    fixed: inputs that are of one dtype whatever the others.  first: the opset from which the op has these inputs.
    """

    domain: str
    op: str
    shapes: tuple[tuple[int, ...], ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[int, int] = field(default_factory=dict)
    first: int = 7

    @property
    def opsets(self) -> range:
        """The opsets to look at: those of the default domain, also where the op is of another."""
        return range(13 if self.domain else self.first, newest_opset() + 1)

    def version(self, opset: int) -> Any:
        """The schema of the op, None where it is not there."""
        return schema(self.domain, self.op, self.opset(opset))

    def opset(self, opset: int) -> int:
        """The opset of its own domain where the default domain has the one given."""
        return 1 if self.domain else opset

    def dtypes(self, kind: str) -> list[int]:
        """The dtypes of its inputs."""
        return [self.fixed.get(place, NUMBERS[kind]) for place in range(len(self.shapes))]

    def model(self, opset: int, kind: str) -> onnx.ModelProto:
        """A model with this node alone."""
        names = [f"input{place}" for place in range(len(self.shapes))]
        shapes = self.shapes
        if self.op == "GroupNormalization" and opset >= 21:  # from then on one scale a channel, not a group
            shapes = (shapes[0], (shapes[0][1],), (shapes[0][1],))
        inputs = [
            helper.make_tensor_value_info(name, dtype, shape)
            for name, dtype, shape in zip(names, self.dtypes(kind), shapes, strict=True)
        ]
        node = helper.make_node(self.op, names, ["output"], domain=self.domain, **self.attributes)
        graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name="output")])
        imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def says(kernels: ProviderSupport, node: OneNode, opset: int, kind: str) -> bool:
    """Whether a table has it that the node runs."""
    types = variables(node.version(opset), node.dtypes(kind))
    return kernels.runs(node.domain, node.op, node.opset(opset), types)


@cache
def _options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    onnxruntime.set_default_logger_severity(4)
    return options


def runs(node: OneNode, opset: int, kind: str) -> bool:
    """Whether ONNX Runtime's CPU provider loads the node."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    refusals = (state.Fail, state.NotImplemented, state.InvalidGraph, state.InvalidArgument, state.RuntimeException)
    try:
        model = node.model(opset, kind).SerializeToString()
        onnxruntime.InferenceSession(model, _options(), providers=["CPUExecutionProvider"])
    except refusals:
        return False
    return True


ROWS, IMAGE, LAST, CHANNELS, PAIR = (2, 4, 8), (1, 4, 6, 6), (8,), (4,), (4, 8)
_UNARY = (
    *("Gelu", "Swish", "Mish", "HardSwish", "Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid", "Softplus", "Softsign"),
    *("Relu", "ThresholdedRelu", "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Reciprocal", "Neg", "Abs", "Floor"),
    *("Identity", "Softmax", "LogSoftmax", "LpNormalization", "Transpose", "ReduceL2", "ReduceMean", "Shrink", "Sign"),
    *("Ceil", "Round", "Sin", "Cos", "ReduceSum", "ReduceMax", "ReduceSumSquare", "ReduceL1", "Flatten", "Dropout"),
)
_BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "PRelu")
_NODES = [
    *(OneNode("", op, (ROWS,)) for op in _UNARY),
    *(OneNode("", op, (ROWS, ROWS)) for op in _BINARY),
    OneNode("", "MatMul", (ROWS, (8, 4))),
    OneNode("", "Gemm", (PAIR, (8, 4), CHANNELS)),
    OneNode("", "Conv", (IMAGE, (4, 4, 3, 3))),
    OneNode("", "ConvTranspose", (IMAGE, (4, 4, 3, 3))),
    OneNode("", "GlobalAveragePool", (IMAGE,)),
    OneNode("", "CastLike", (ROWS, ROWS), first=15),
    OneNode("", "Clip", (ROWS, (), ()), first=11),
    OneNode("", "BatchNormalization", (IMAGE, CHANNELS, CHANNELS, CHANNELS, CHANNELS)),
    OneNode("", "InstanceNormalization", (IMAGE, CHANNELS, CHANNELS)),
    OneNode("", "GroupNormalization", (IMAGE, (2,), (2,)), {"num_groups": 2}),
    OneNode("", "LayerNormalization", (ROWS, LAST, LAST)),
    OneNode("", "RMSNormalization", (ROWS, LAST)),
    OneNode("", "SimplifiedLayerNormalization", (ROWS, LAST)),
    OneNode("", "MeanVarianceNormalization", (IMAGE,), {"axes": [0, 2, 3]}, first=9),
    OneNode("", "DepthToSpace", (IMAGE,), {"blocksize": 2}),
    OneNode(MICROSOFT, "Gelu", (ROWS,)),
    OneNode(MICROSOFT, "FastGelu", (ROWS,)),
    OneNode(MICROSOFT, "QuickGelu", (ROWS,)),
    OneNode(MICROSOFT, "BiasGelu", (ROWS, LAST)),
    OneNode(MICROSOFT, "BiasSplitGelu", (ROWS, LAST)),
    OneNode(MICROSOFT, "BiasAdd", (ROWS, LAST, ROWS)),
    OneNode(MICROSOFT, "BiasSoftmax", (ROWS, (1, 4, 8)), {"axis": 2, "is_inner_broadcast": 0}),
    OneNode(MICROSOFT, "SkipLayerNormalization", (ROWS, ROWS, LAST, LAST)),
    OneNode(MICROSOFT, "SkipSimplifiedLayerNormalization", (ROWS, ROWS, LAST)),
    OneNode(
        MICROSOFT, "GroupNorm", ((1, 6, 6, 4), CHANNELS, CHANNELS), {"groups": 2, "activation": 0}, {1: FLOAT, 2: FLOAT}
    ),
    OneNode(MICROSOFT, "FusedMatMul", (ROWS, (8, 4))),
    OneNode(MICROSOFT, "FusedGemm", (PAIR, (8, 4), CHANNELS), {"activation": "Relu"}),
    OneNode(MICROSOFT, "FusedConv", (IMAGE, (4, 4, 3, 3)), {"activation": "Relu"}),
    OneNode(MICROSOFT, "NhwcConv", ((1, 6, 6, 4), (4, 3, 3, 4))),
    OneNode(MICROSOFT, "TransposeMatMul", (ROWS, (8, 4))),
]
NODES = {(node.domain, node.op): node for node in _NODES}
