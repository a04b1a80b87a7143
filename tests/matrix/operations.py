"""What counts as done: the ops that may stand for an operation in a model made for ONNX Runtime, and the rules run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import isclose

import onnx

from surgeon.rules.catalogue import resolve, unique_rules
from surgeon.rules.rule import Rule

RULES = ("ort", "-residual_sum", "l2_norm", "naive_log_softmax")
"""The rules that suit ONNX Runtime, in their order, and two that no group holds as they differ for some inputs.

residual_sum keeps a norm and its sum apart, where a CPU is faster so; what is asked here is whether one node is found.
"""


@dataclass(frozen=True)
class Op:
    """An op that stands for an operation.  since: the opset of ai.onnx from which a model may hold it.

    attributes: values it must have, with what it has by default.
    """

    domain: str
    name: str
    since: int = 1
    attributes: Mapping[str, tuple[float | str, float | str]] = field(default_factory=dict)

    def is_(self, node: onnx.NodeProto) -> bool:
        """Whether a node is this op with these attributes."""
        if (node.op_type, "" if node.domain == "ai.onnx" else node.domain) != (self.name, self.domain):
            return False
        found = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        return all(_equal(found.get(key, default), want) for key, (want, default) in self.attributes.items())


def _equal(value: float | str | bytes, want: float | str) -> bool:
    if isinstance(want, str):
        return (value.decode() if isinstance(value, bytes) else value) == want
    return not isinstance(value, (str, bytes)) and isclose(value, want, rel_tol=1e-4)


@dataclass(frozen=True)
class Operation:
    """Ops of which each is one site done, and ops that may not remain beside them where all is folded into one.

    ep: the execution provider that has kernels for the ops, where that of the CPU has not.
    """

    ops: tuple[Op, ...]
    gone: tuple[str, ...] = ()
    ep: str | None = None

    def has_an_op(self, opset: int) -> bool:
        """Whether a model of this opset can hold one of the ops."""
        return any(op.since <= opset for op in self.ops)

    def done(self, nodes: Iterable[onnx.NodeProto]) -> int:
        """How many sites the nodes show as done."""
        found = list(nodes)
        remaining = sum(node.op_type in self.gone for node in found)
        return max(0, sum(op.is_(node) for node in found for op in self.ops) - remaining)


MS = "com.microsoft"
SILU = {"alpha": (1.0, 1.702)}
QUICK = {"alpha": (1.702, 1.702)}
NORM_AND_SILU = Op(MS, "GroupNorm", 1, {"activation": (1, 0)})
CONV = (Op("", "Conv"), Op(MS, "FusedConv"))

OPERATIONS = {
    "gelu": Operation((Op(MS, "Gelu"), Op(MS, "BiasGelu"), Op("", "Gelu", 20, {"approximate": ("none", "none")}))),
    "bias_gelu": Operation((Op(MS, "BiasGelu"),)),
    "gelu_tanh": Operation((Op(MS, "FastGelu"), Op("", "Gelu", 20, {"approximate": ("tanh", "none")}))),
    "quick_gelu": Operation((Op(MS, "QuickGelu", 1, QUICK), Op("", "Swish", 24, {"alpha": (1.702, 1.0)}))),
    "silu": Operation((Op(MS, "QuickGelu", 1, SILU), Op("", "Swish", 24, {"alpha": (1.0, 1.0)}), NORM_AND_SILU)),
    "hardswish": Operation((Op("", "HardSwish", 14),)),
    "hardsigmoid": Operation((Op("", "HardSigmoid"),)),
    "mish": Operation((Op("", "Mish", 18),)),
    "softplus": Operation((Op("", "Softplus"),)),
    "elu": Operation((Op("", "Elu"),)),
    "selu": Operation((Op("", "Selu"),)),
    "celu": Operation((Op("", "Celu", 12),)),
    "leaky_relu": Operation((Op("", "LeakyRelu"),)),
    "prelu": Operation((Op("", "PRelu"),)),
    "relu6": Operation((Op("", "Clip"),), ("Relu", "Min", "Max")),
    "softmax": Operation((Op("", "Softmax"),)),
    "log_softmax": Operation((Op("", "LogSoftmax"),)),
    "layer_norm": Operation((Op("", "LayerNormalization"), Op(MS, "SkipLayerNormalization"))),
    "skip_layer_norm": Operation((Op(MS, "SkipLayerNormalization"), Op("", "Sum"))),  # on a CPU Sum is faster
    "rms_norm": Operation(
        (
            Op("", "SimplifiedLayerNormalization"),
            Op("", "RMSNormalization", 23),
            Op(MS, "SkipSimplifiedLayerNormalization"),
        )
    ),
    "skip_rms_norm": Operation((Op(MS, "SkipSimplifiedLayerNormalization"), Op("", "Sum"))),
    "group_norm": Operation((Op(MS, "GroupNorm"), Op("", "GroupNormalization", 21)), ep="cuda"),
    "instance_norm": Operation((Op("", "InstanceNormalization"),)),
    "batch_norm": Operation((Op("", "BatchNormalization"),)),
    "l2_norm": Operation((Op("", "LpNormalization", 1, {"p": (2, 2)}),)),
    "conv_bn": Operation(CONV, ("BatchNormalization", "Mul", "Add", "Div", "Sub")),
    "conv_mul": Operation(CONV, ("Mul", "Add")),
    "conv_add": Operation(CONV, ("Mul", "Add")),
    "pad_conv": Operation(CONV, ("Pad", "ConstantPad")),
    "gemm": Operation((Op("", "Gemm"), Op(MS, "FusedGemm")), ("Add",)),
    "fused_matmul": Operation((Op(MS, "FusedMatMul"),)),
}
"""By the names that the forms and the truth use."""


FORMS_SINCE = {"softmax.primitives_axis_1": 13}
"""Opsets from which the op takes a form: below 13, Softmax takes all axes from its own on as one."""


def wanted(form: str, truth: Mapping[str, int], opset: int) -> dict[str, int]:
    """Sites of a form that an op can stand for at this opset, of those that torch ran."""
    if opset < FORMS_SINCE.get(form, 1):
        return {}
    return {kind: n for kind, n in truth.items() if OPERATIONS[kind].has_an_op(opset)}


def provider(sites: Iterable[str]) -> str | None:
    """The execution provider that a form with sites of these operations is rewritten for; None for the default one."""
    return next((OPERATIONS[kind].ep for kind in sites if OPERATIONS[kind].ep), None)


@cache
def rules() -> tuple[Rule, ...]:
    """The rules that are run, in their order."""
    return tuple(unique_rules(resolve(RULES)))


def targets(nodes: Iterable[onnx.NodeProto]) -> int:
    """How many nodes are an op that some operation of the table accepts; a decoy may not gain one."""
    ops = [op for operation in OPERATIONS.values() for op in operation.ops]
    return sum(any(op.is_(node) for op in ops) for node in nodes)
