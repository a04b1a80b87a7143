"""Comparison of any two models: first their interfaces, then their outputs."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import GraphProto, ValueInfoProto

from surgeon.analysis.assumptions.model_assumptions import assumption_lines, with_assumptions
from surgeon.errors import UsageError
from surgeon.file.model_like import ModelLike, OpenedModel, by_component, model_name, opened_to_run
from surgeon.ops.schemas.attribute_values import dtype_word
from surgeon.ops.traversal import require_finite_calls
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.runtime.run_limits import DEFAULT_TIMEOUT, Inputs, Runtime, as_list
from surgeon.shapes.constraints.input_dims import dynamic_dims, input_dims, required_inputs

if TYPE_CHECKING:
    from surgeon.proof.model.model_check import ModelRuntime


@by_component("original", "other")
def compare(
    original: ModelLike,
    other: ModelLike,
    *,
    inputs: Inputs | Sequence[Inputs] = (),
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    custom_ops: Sequence[str | Path] = (),
    rtol: float | None = None,
    atol: float | None = None,
    layers: bool = False,
    decode: bool = False,
    run_time: float = DEFAULT_TIMEOUT,
    runtime: Runtime = "onnxruntime",
    ep: str | None = None,
    ep_library: str | None = None,
    assume: Sequence[str] | Mapping[str, str] = (),
) -> CheckResult:
    """Run two models on the same inputs and compare every output.

    Inputs and outputs may come in another order, but their names must agree.  If the other model fixes a dimension that
    is dynamic in the original, they are compared only at that size.

    Args:
        original: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.
        other: the second model, of the same types.
        inputs: arrays by input name, .npz files, folders of them, or folders of ONNX test data; one such set or a list.
            By default, inputs are generated for the graph.
        dims: sizes of dynamic dimensions by name, for generated inputs.
        seed: seed of the generated inputs.
        custom_ops: libraries that ONNX Runtime registers, and Python files (`.py`) of implementations.  These and the
            registered ones (see `implements`) run ops without a kernel in ONNX Runtime.
        rtol: relative tolerance: an element may differ by atol + rtol * the output's scale.  The default depends on the
            dtype; if either model computes in half precision, it is that of half precision.
        atol: absolute tolerance; the default depends on the dtype.
        layers: compare inner tensors of the same name too, and report the first that leaves tolerance.
        decode: compare two decoders of text.  The other model decodes token by token, in batches padded on the right;
            the original reads each sequence by itself.  Caches are not compared.
        run_time: seconds of processor time that one run of a model may take.
        runtime: runtime of the other model: "onnxruntime", or "tensorrt", which needs an NVIDIA GPU and runs without
            TF32.  The original runs under ONNX Runtime.
        ep: execution provider of ONNX Runtime for the other model, for example cuda, with full precision.  The original
            runs on the CPU.  Default: cpu, or the first one of ep_library.
        ep_library: plugin with the execution provider: its Python module, or NAME=PATH of its library.
        assume: assumption about the values of an input: a range such as 0..1, finite, nonzero, sorted, mask;
            left-padded, right-padded or no padding.  Assumptions in the metadata of either model count too.  In Python,
            "NAME: WORDS", or words by name.

    Returns:
        The result; proved means equal within tolerance on all inputs that were run.

    Raises:
        ModelFileError: a file cannot be read.
        UsageError: invalid options, inputs that do not fit the original, or no GPU for TensorRT.
        GraphError: local functions that call themselves, or one another too often to be inlined.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> surgeon.compare(model, model).outcome.value
        'proved'
    """
    from surgeon.runtime.implementations.implementation import traits_of_files  # not at the top: it is slow

    started = time.perf_counter()
    options = CheckOptions(
        dims or {},
        seed,
        custom_ops,
        rtol=rtol,
        atol=atol,
        inputs=as_list(inputs),
        layers=layers,
        run_time=run_time,
        assume=assume,
    )
    options.require()
    elsewhere = _runtime_of_other(options, runtime, ep, ep_library)
    if decode and (options.inputs or options.dims or layers or options.assume):
        raise UsageError("Decoding has its own inputs and sizes. Omit inputs, dims, layers and assume, or decode.")
    with ExitStack() as stack:
        stack.enter_context(traits_of_files(options.custom_ops))
        sides = [stack.enter_context(opened_to_run(model)) for model in (original, other)]
        for model, _ in sides:
            model.check_data(sums=True)
            require_finite_calls(model.skeleton)
        if decode:
            from surgeon.proof.model.decoding_check import compare_decoding

            result = compare_decoding(sides[0], sides[1], options, elsewhere)
        else:
            result = _compare_outputs(sides[0], sides[1], options, elsewhere)
    result = replace(result, seconds=time.perf_counter() - started)
    return replace(result, original=model_name(original), other=model_name(other))


def _compare_outputs(
    original: OpenedModel, other: OpenedModel, options: CheckOptions, elsewhere: "ModelRuntime | None"
) -> CheckResult:
    """Run both models on the same inputs and compare every output."""
    from surgeon.proof.model.half_precision import half_of  # not at the top, as in `compare`
    from surgeon.proof.model.model_check import ModelCheck

    (opened, first), (against, second) = original, other
    differences = list(_differences(opened.skeleton.graph, against.skeleton.graph))
    if differences:
        reason = f"The interfaces differ: {'; '.join(differences)}."
        return CheckResult(Outcome.FAILED, reason, (), 0.0, runs=0, tolerance={})
    fixed = {} if options.inputs else _fixed_sizes(opened.skeleton.graph, against.skeleton.graph, options.dims)
    options = replace(options, dims={**fixed, **options.dims})
    assumed = with_assumptions(opened.skeleton, [*options.assume, *assumption_lines(against.skeleton)])
    check = ModelCheck(
        first(),
        assumed,
        options,
        other="the other model",
        ordered=False,
        runs_other=elsewhere,
        against=against.skeleton,
    )
    by_side = {"the original": half_of(opened.skeleton), "the other model": half_of(against.skeleton)}
    result = check.check(second())
    if fixed and result.outcome is Outcome.PROVED:
        sizes = ", ".join(f"{name} = {size}" for name, size in fixed.items())
        result = _noted(result, f"Compared only at {sizes}, because the other model fixes these sizes.")
    if options.rtol is None and options.atol is None:
        result = _half_noted(result, {side: half for side, half in by_side.items() if half})
    return replace(result, assumptions=assumption_lines(assumed))


def _runtime_of_other(
    options: CheckOptions, runtime: Runtime, ep: str | None, ep_library: str | None
) -> "ModelRuntime | None":
    """The runtime of the other model; None for that of the original.  Raises UsageError as `compare`."""
    from surgeon.runtime.tensorrt.isolated_engine import require_runtime  # not at the top, as in `compare`

    engines = require_runtime(runtime, options.run_time)
    if engines is not None:
        if options.layers or options.custom_ops or ep or ep_library:
            raise UsageError("With the runtime TensorRT, neither inner tensors nor custom ops nor ep are supported.")
        return engines
    if ep is None and ep_library is None:
        return None
    from surgeon.runtime.sessions.ep_library import find_plugin
    from surgeon.runtime.sessions.provider_runtime import runtime_of
    from surgeon.runtime.timing.bench import ort_provider

    provider = ort_provider(str(ep)) if ep_library is None else find_plugin(ep_library, ep)
    found = runtime_of(provider, options.custom_ops, options.run_time)
    if found is not None and options.layers:
        raise UsageError("Inner tensors are compared only on the CPU. Leave out layers, or the execution provider.")
    return found


def _noted(result: CheckResult, note: str) -> CheckResult:
    """A result with one more sentence in its reason."""
    return replace(result, reason=f"{result.reason} {note}".strip())


def _half_noted(result: CheckResult, halves: Mapping[str, str]) -> CheckResult:
    """The result with the tolerance of half precision in its reason.  halves: their dtypes."""
    from surgeon.runtime.numerics.array_comparison import tolerance  # not at the top, to keep `import surgeon` fast

    if not halves:
        return result
    half, sides = max(halves.values(), key=tolerance), list(halves)
    who = "Both models compute" if sides[1:] else f"{sides[0][0].upper()}{sides[0][1:]} computes"
    return replace(_noted(result, f"{who} in half precision, so the tolerance of {half} applies."), half=half)


def _differences(original: GraphProto, other: GraphProto) -> Iterator[str]:
    """Yield the differences in inputs and outputs that prevent running two models side by side."""
    ours, theirs = required_inputs(original), required_inputs(other)
    yield from _names("input", ours, theirs)
    yield from _names(
        "output", {value.name: value for value in original.output}, {value.name: value for value in other.output}
    )
    for name in ours:
        if name in theirs:
            yield from _types(ours[name], theirs[name])


def _names(what: str, ours: Mapping[str, object], theirs: Mapping[str, object]) -> Iterator[str]:
    for one, another, where in ((ours, theirs, "original"), (theirs, ours, "other model")):
        missing = [f"'{name}'" for name in one if name not in another]
        if missing:
            plural = len(missing) > 1
            yield f"{what}{'s' * plural} {', '.join(missing)} exist{'s' * (not plural)} only in the {where}"


def _types(ours: ValueInfoProto, theirs: ValueInfoProto) -> Iterator[str]:
    """Yield how one input differs in kind, dtype or shape; a dynamic dim fits every size."""
    kinds = [_kind(value) for value in (ours, theirs)]
    if kinds[0] != kinds[1]:
        yield f"input '{ours.name}' is {kinds[0]} in the original and {kinds[1]} in the other model"
        return
    tensors = [value.type.tensor_type for value in (ours, theirs)]
    if not all(tensor.HasField("shape") for tensor in tensors):
        return
    shapes = [input_dims(value) for value in (ours, theirs)]
    clash = len(shapes[0]) != len(shapes[1]) or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(*shapes, strict=True)
    )
    if clash:
        texts = [f"[{', '.join('?' if '[' in str(dim) else str(dim) for dim in shape)}]" for shape in shapes]
        yield f"input '{ours.name}' has the shape {texts[0]} in the original and {texts[1]} in the other model"


def _kind(value: ValueInfoProto) -> str:
    kind = value.type.WhichOneof("value") or "of unknown type"
    if kind != "tensor_type":
        return "a " + kind.removesuffix("_type").replace("_", " ") if kind.endswith("_type") else kind
    return dtype_word(value.type.tensor_type.elem_type)


def _fixed_sizes(original: GraphProto, other: GraphProto, dims: Mapping[str, int]) -> dict[str, int]:
    """The sizes that the other model fixes, of dims that are dynamic in the original and not chosen by the user."""
    ours, theirs = required_inputs(original), required_inputs(other)
    free = dynamic_dims([value for value in ours.values() if value.type.HasField("tensor_type")])
    found: dict[str, int] = {}
    for name, value in ours.items():
        if value.type.HasField("tensor_type") and theirs[name].type.tensor_type.HasField("shape"):
            for a, b in zip(input_dims(value), input_dims(theirs[name]), strict=False):
                if isinstance(a, str) and isinstance(b, int) and a in free and a not in dims:
                    found.setdefault(a, b)
    return found
