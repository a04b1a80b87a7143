"""Bugs of released versions of onnxruntime, onnx and torch, and helpers of their workarounds.

`tests/test_quirks.py` reproduces each `Quirk` without surgeon, and fails once the installed version is corrected.  Then
set `corrected`.  When pyproject.toml requires that version, remove the quirk and its workaround.

Lower packages cannot import this module and document their own quirks:

- `ir/verify_rewrite.py`: onnx before 1.23 does not compare a payload with its shape.
- `shapes/onnx_inference.py`: inference reads a symbolic dim as 0.
- `ops/traits/dtype_traits.py`: inference reads the axes of Pad as int64; some bodies lack a dtype.
- `ir/constants.py`, `analysis/input_roles.py`: nodes and input names that exporters write.

The limits of one target are in tables of that target (`targets/ort_cuda_limits.py`, `targets/tensorrt`).  A quirk that
concerns only one rule is in `patterns/`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import onnx

from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import traits_of

Shape = tuple[int, ...]
Version = tuple[int, ...]

_FEWEST_WINDOW_AXES = 3  # channels in, channels out, one in space


@dataclass(frozen=True, slots=True)
class Quirk:
    """A bug of another package that surgeon works around."""

    fault: str
    """Description of the bug."""
    package: Literal["onnxruntime", "onnx", "torch"]
    """The module that has the bug."""
    used_by: tuple[str, ...]
    """Files in `surgeon/` with a workaround; each names the quirk.  Empty if only tests meet the bug."""
    first: Version = (0,)
    """The first known version with the bug, (0,) if the oldest supported one has it."""
    corrected: Version | None = None
    """The first known version that corrects it, None if the newest one still has it."""

    def affects(self, version: str) -> bool:
        """Whether a version of the package, such as "1.32.0", has the bug."""
        numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:3] if part.isdigit())
        return self.first <= numbers and (self.corrected is None or numbers < self.corrected)


TRANSPOSED_FLOAT16_MATMUL = Quirk(
    "On a CPU, the optimiser merges a float16 Transpose that moves the first axis among the last two into the next "
    "MatMul (`transBatchA` of FusedMatMul).  Loading the model then ends the process.",
    "onnxruntime",
    ("precision/kept_nodes/missing_kernels.py", "precision/planning/dtype_plan.py"),
    first=(1, 23),
)
CAST_BEFORE_CUDA_MATMUL = Quirk(
    "On CUDA, the same optimiser moves a Cast between Transpose and MatMul, and then finds no kernel for it.",
    "onnxruntime",
    ("precision/planning/dtype_plan.py",),
    first=(1, 31),
)
UNCHECKED_BIAS_LENGTH = Quirk(
    "MatMulIntegerToFloat and DynamicQuantizeMatMul read beyond a bias that is shorter than a row.",
    "onnxruntime",
    ("authoring/rule_proof/pattern_arguments.py",),
    corrected=(1, 27),
)
EMPTY_RECURRENT = Quirk(
    "LSTM and GRU end the process for a batch of 0.",
    "onnxruntime",
    ("proof/site/worker_proofs.py",),
)
FLOAT64_RECURRENT = Quirk(
    "LSTM and GRU load in float64, but do not run.",
    "onnxruntime",
    ("runtime/sessions/float64_reference.py",),
)
IMPRECISE_GROUP_NORM = Quirk(
    "On a CPU, the function body of GroupNormalization computes the variance as mean(x²) - mean(x)².  If the mean is "
    "1,000 times the deviation, no digit of the variance is right.",
    "onnxruntime",
    ("runtime/provider_support.py", "runtime/sessions/oracle.py", "proof/site/prove_region.py"),
)
MASKED_ATTENTION_ROW = Quirk(
    "Attention in float64 returns NaN for a fully masked row, but the operator returns 0.",
    "onnxruntime",
    ("runtime/sessions/float64_reference.py",),
    first=(1, 23),
    corrected=(1, 32),
)
LOWEST_FILL_HIDES = Quirk(
    "Attention treats the lowest number in a float mask as -infinity and returns 0 for a fully masked row.  The "
    "operator adds the number to the scores.",
    "onnxruntime",
    ("proof/judge/exemptions.py",),
    first=(1, 28),
)
FINITE_HIDDEN_SCORES = Quirk(
    "Attention with is_causal writes the lowest number to qk_matmul_output, but the operator writes -infinity.",
    "onnxruntime",
    (),
    first=(1, 24),
)
SATURATED_INT8_SUMS = Quirk(
    "On x86 without VNNI, kernels saturate sums of two uint8 × int8 products at 16 bits.",
    "onnxruntime",
    ("runtime/sessions/int8_saturation.py", "runtime/sessions/ort_session.py"),
)
MISSING_PROVIDER_LIBRARY = Quirk(
    "Listing the kernels ends the process if the library of a provider does not load: `onnxruntime-gpu` on a machine "
    "without TensorRT, or without a driver.",
    "onnxruntime",
    ("runtime/provider_kernels.py",),
)
UNCHECKED_WINDOW_AXES = Quirk(
    "Shape inference ends the process for a Conv whose weight and input have different ranks.",
    "onnx",
    ("authoring/rule_proof/instances.py",),
    corrected=(1, 22),
)
INLINED_DEFAULTS = Quirk(
    "The inliner drops attributes that a call leaves at the default of its function.",
    "onnx",
    ("runtime/function_inlining.py",),
)
INLINED_OUTPUTS = Quirk(
    "The inliner loses an output of a function that is also an input, or that is listed twice.",
    "onnx",
    ("runtime/function_inlining.py",),
)
INLINED_BODY_OUTPUTS = Quirk(
    "The inliner renames an output of a body that no node of the body computes, but not the tensor that it refers to.",
    "onnx",
    ("rules/searches/counted_loops.py",),
)
EVALUATOR_DOMAIN = Quirk(
    'The ReferenceEvaluator has no operators for the domain "ai.onnx", which is the same as "".',
    "onnx",
    ("runtime/function_inlining.py",),
)
EVALUATOR_SHARED_HEADS = Quirk(
    "In Attention of the ReferenceEvaluator, head h of q reads head h % k of the keys instead of h // (q / k).",
    "onnx",
    ("runtime/kernels/onnx_attention.py",),
    corrected=(1, 19, 1),
)
EVALUATOR_PRECISION = Quirk(
    "Several operators of the ReferenceEvaluator overflow, compute in float32 or reject float64.",
    "onnx",
    ("runtime/kernels/kernel_registry.py",),
)
TORCHSCRIPT_LOG = Quirk(
    "After an export turns on the log of the TorchScript exporter, the log stays on: failed exports print their graph.",
    "torch",
    ("torch/exporters/torchscript.py",),
)

IMPRECISE_BODIES: Mapping[tuple[str, str], str] = {
    ("", "GroupNormalization"): "its variance is mean(x²) - mean(x)², which loses digits if a mean is large",
}
"""Ops for which ONNX Runtime uses an imprecise function body, and why.  No rule writes them if the body would run.

The body of GroupNormalization is also slower than InstanceNormalization between two Reshapes.  (IMPRECISE_GROUP_NORM)
"""
WRONG_FLOAT64_BODIES = frozenset((("", "Attention"),))
"""Ops whose body differs from the operator in float64.  (MASKED_ATTENTION_ROW)"""


def is_batch_transpose(perm: Sequence[int]) -> bool:
    """Whether a Transpose moves the first axis among the last two and keeps the order of the leading axes.

    Such a float16 Transpose must not precede a MatMul.  (TRANSPOSED_FLOAT16_MATMUL)
    """
    lead = len(perm) - 2
    return lead > 0 and list(perm[:lead]) == [*range(1, lead + 1)]


def windows_misfit(graph: onnx.GraphProto) -> str | None:
    """Why shape inference must not see a graph of fixed shapes, None if it may.  (UNCHECKED_WINDOW_AXES)"""
    known = _shapes(graph)
    for node in graph.node:
        op = traits_of(node.op_type)
        if "conv" in op.products.kind and op.products.weight_slot is not None and not node.domain:
            ends = node.input[0], node.input[op.products.weight_slot]
            over, windows = (len(known[name]) if name in known else None for name in ends)
            if windows is not None and (windows < _FEWEST_WINDOW_AXES or over not in (None, windows)):
                return f"{node.op_type} has a weight of rank {windows} and an input of rank {over}"
    return None


def may_crash(model: onnx.ModelProto) -> bool:
    """Whether a kernel would read beyond its tensors in a graph of fixed shapes.  (UNCHECKED_BIAS_LENGTH)"""
    graph = model.graph
    known = _shapes(graph)
    return any(not _fits(node, traits_of(qualified_name(node.domain, node.op_type)), known) for node in graph.node)


def _shapes(graph: onnx.GraphProto) -> dict[str, Shape]:
    """The shapes of inputs and initializers; 0 for a dynamic dim."""
    known: dict[str, Shape] = {item.name: tuple(item.dims) for item in graph.initializer}
    for value in graph.input:
        known[value.name] = tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
    return known


def _fits(node: onnx.NodeProto, op: OpTraits, known: Mapping[str, Shape]) -> bool:
    """Whether each slot whose kernel does not check its length is a scalar or has one number per column."""
    product = op.products
    if not product.per_column or product.factors is None or product.bias_slot is None:
        return True
    shape = known.get(node.input[product.factors[1]])
    if shape is None or len(shape) < 2:
        return False
    vector = (shape[-1],)
    allowed = {(), (1,), vector} if len(shape) == 2 else {(), (1,)}
    return all(_input_shape(node.input, place, known) in {None, *allowed} for place in product.per_column) and (
        _input_shape(node.input, product.bias_slot, known) in (None, vector)
    )


def _input_shape(inputs: Sequence[str], place: int, known: Mapping[str, Shape]) -> Shape | None:
    """The shape of an input; None if it is omitted or computed by another node."""
    return known.get(inputs[place]) if place < len(inputs) and inputs[place] else None
