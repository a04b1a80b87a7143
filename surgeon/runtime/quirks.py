"""Faults of released versions of onnxruntime, onnx and torch, and what surgeon needs to know to avoid them.

`tests/test_quirks.py` reproduces each `Quirk` without surgeon, and fails once the installed version is corrected.  Then
set `corrected`, and remove the quirk with its workaround as soon as pyproject.toml demands that version.

Packages below this one cannot import it and keep theirs: `ir/verify_rewrite.py` (onnx before 1.23 does not compare a
payload with its shape), `shapes/onnx_inference.py` (inference reads a symbolic dim as 0), `ops/traits/dtype_traits.py`
(inference reads the axes of Pad as int64; bodies that lack a dtype), `ir/constants.py` and `analysis/input_roles.py`
(what exporters write, and how they name inputs).  Neither are the limits of one target here, which are tables of the
target (`targets/ort_cuda_limits.py`, `targets/tensorrt`), nor what one rule avoids (`patterns/`).
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
    """A fault of another package that surgeon works around."""

    fault: str
    """What goes wrong."""
    package: Literal["onnxruntime", "onnx", "torch"]
    """The module that has the fault."""
    used_by: tuple[str, ...]
    """Files in `surgeon/` with a workaround; each names the quirk.  Empty where only tests meet the fault."""
    first: Version = (0,)
    """The first version seen with the fault, (0,) if the oldest supported one has it."""
    corrected: Version | None = None
    """The first version seen without it again, None if the newest one has it."""

    def affects(self, version: str) -> bool:
        """Whether a version of the package, such as "1.32.0", has the fault."""
        numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:3] if part.isdigit())
        return self.first <= numbers and (self.corrected is None or numbers < self.corrected)


TRANSPOSED_FLOAT16_MATMUL = Quirk(
    "On a CPU the optimiser merges a float16 Transpose that moves the first axis among the last two into the MatMul "
    "behind it (`transBatchA` of FusedMatMul).  Loading the model then ends the process.",
    "onnxruntime",
    ("precision/kept_nodes/missing_kernels.py", "precision/planning/dtype_plan.py"),
    first=(1, 23),
)
CAST_BEFORE_CUDA_MATMUL = Quirk(
    "On CUDA the same optimiser moves a Cast between Transpose and MatMul, and then finds no kernel for it.",
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
    "LSTM and GRU load in float64, and refuse to run.",
    "onnxruntime",
    ("runtime/sessions/float64_reference.py",),
)
IMPRECISE_GROUP_NORM = Quirk(
    "On a CPU GroupNormalization is run by a function body that computes the variance as mean(x²) - mean(x)².  Where "
    "the mean is 1,000 times the deviation, no digit of it is right.",
    "onnxruntime",
    ("runtime/provider_support.py", "runtime/sessions/oracle.py", "proof/site/prove_region.py"),
)
MASKED_ATTENTION_ROW = Quirk(
    "Attention in float64 makes NaN of a row that the mask hides, where the operator makes 0.",
    "onnxruntime",
    ("runtime/sessions/float64_reference.py",),
    first=(1, 23),
    corrected=(1, 32),
)
LOWEST_FILL_HIDES = Quirk(
    "Attention takes the lowest number in a float mask for -infinity and gives 0 for a row that it hides, where the "
    "operator adds the number to the scores.",
    "onnxruntime",
    ("proof/judge/exemptions.py",),
    first=(1, 28),
)
FINITE_HIDDEN_SCORES = Quirk(
    "Attention with is_causal writes the lowest number to qk_matmul_output where the operator writes -infinity.",
    "onnxruntime",
    (),
    first=(1, 24),
)
SATURATED_INT8_SUMS = Quirk(
    "Kernels for x86 without VNNI saturate sums of two products of uint8 by int8 at 16 bits.",
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
    "Shape inference ends the process for a Conv whose weight has another rank than its input.",
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
    "The inliner loses an output of a function that is an input too, or that is listed twice.",
    "onnx",
    ("runtime/function_inlining.py",),
)
INLINED_BODY_OUTPUTS = Quirk(
    "The inliner renames an output of a body that no node of the body computes, and not what it stands for.",
    "onnx",
    ("rules/searches/counted_loops.py",),
)
EVALUATOR_DOMAIN = Quirk(
    'The ReferenceEvaluator has no operators for the domain "ai.onnx", which is the same as "".',
    "onnx",
    ("runtime/function_inlining.py",),
)
EVALUATOR_SHARED_HEADS = Quirk(
    "Attention of the ReferenceEvaluator lets head h of q read head h % k of the keys, in place of h // (q / k).",
    "onnx",
    ("runtime/kernels/onnx_attention.py",),
    corrected=(1, 19, 1),
)
EVALUATOR_PRECISION = Quirk(
    "Several operators of the ReferenceEvaluator overflow, compute in float32 or refuse float64.",
    "onnx",
    ("runtime/kernels/kernel_registry.py",),
)
TORCHSCRIPT_LOG = Quirk(
    "Once an export has turned the TorchScript exporter's log on, it stays on: failed exports print their graph.",
    "torch",
    ("torch/exporters/torchscript.py",),
)

IMPRECISE_BODIES: Mapping[tuple[str, str], str] = {
    ("", "GroupNormalization"): "its variance is mean(x²) - mean(x)², which loses digits where a mean is large",
}
"""Ops that ONNX Runtime runs by a body with too few digits, and why: no rule writes them where the body would run.

The body of GroupNormalization is slower too than InstanceNormalization between two Reshapes.  (IMPRECISE_GROUP_NORM)
"""
WRONG_FLOAT64_BODIES = frozenset((("", "Attention"),))
"""Ops whose body differs from the operator in float64.  (MASKED_ATTENTION_ROW)"""


def is_batch_transpose(perm: Sequence[int]) -> bool:
    """Whether a Transpose moves the first axis among the last two, and keeps the order of the others in front.

    Such a float16 Transpose must not stand before a MatMul.  (TRANSPOSED_FLOAT16_MATMUL)
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
                return f"{node.op_type} moves windows of {windows} axes over a tensor of {over}"
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
    """Whether a product has a scalar or one number per column in each slot whose kernel does not check that."""
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
    """The shape of an input; None where it is omitted or computed by another node."""
    return known.get(inputs[place]) if place < len(inputs) and inputs[place] else None
