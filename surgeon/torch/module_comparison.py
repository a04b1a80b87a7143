"""Compares a module of torch with a model: both run on the same arguments."""

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import torch
from onnx import ModelProto
from torch.utils import _pytree

from surgeon.errors import CheckFailed, ModelFileError, UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, opened_to_run
from surgeon.runtime.numerics.array_comparison import dtype_name, require_tolerances
from surgeon.runtime.sessions.oracle import open_oracle
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError, require_libraries
from surgeon.text import format_count
from surgeon.torch.placeholders.class_operators import restore_buffers
from surgeon.torch.placeholders.example_inputs import argument_tensors, bind_arguments, tensor_names
from surgeon.torch.tensor_conversion import clone_tensors, tensor_leaves, to_numpy

ONNX_RUNTIME = "ONNX Runtime"
# dtype -> (rtol, atol), as torch.testing.assert_close has them: |actual - expected| <= atol + rtol * |expected|.
TOLERANCES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "float16": (1e-3, 1e-5),
        "bfloat16": (1.6e-2, 1e-5),
        "float32": (1.3e-6, 1e-5),
        "float64": (1e-7, 1e-7),
        "complex64": (1.3e-6, 1e-5),
        "complex128": (1e-7, 1e-7),
    }
)


@dataclass(frozen=True, slots=True)
class OutputGap:
    """The comparison of one output."""

    name: str
    """The name of the output in the model."""
    dtype: str
    """The dtype in torch."""
    shape: tuple[int, ...]
    """The shape in torch."""
    max_abs: float
    """The largest |model - torch|."""
    max_rel: float
    """The largest |model - torch| / |torch|."""
    at: tuple[int, ...]
    """The index of the largest absolute difference."""
    rtol: float
    """The allowed relative difference."""
    atol: float
    """The allowed absolute difference."""
    why: str
    """The rest of a sentence on the difference, after "Output 'name'"; empty if the output is close enough."""

    @property
    def ok(self) -> bool:
        """Whether the output is close enough."""
        return not self.why

    def __str__(self) -> str:
        head = f"{self.name}: {self.dtype}{list(self.shape)}"
        if math.isinf(self.max_abs):
            return f"{head}, {self.why}"
        if not self.max_abs and self.ok:
            return f"{head}, equal"
        place = f" at {list(self.at)}" if self.at else ""
        allowed = f"{self.rtol:g} relative and {self.atol:g} absolute allowed"
        return f"{head}, off by at most {self.max_abs:.3g}{place} ({self.max_rel:.3g} relative); {allowed}"


@dataclass(frozen=True, slots=True)
class TorchComparison:
    """The comparison of a model with torch.  True if all outputs are close enough."""

    outputs: tuple[OutputGap, ...]
    """The outputs in the order of the model."""
    engine: str
    """The runtime of the model."""

    @property
    def worst(self) -> OutputGap | None:
        """The output with the largest difference, wrong ones first."""
        return max(self.outputs, key=_severity, default=None)

    def __bool__(self) -> bool:
        return all(one.ok for one in self.outputs)

    def __repr__(self) -> str:
        lines = [f"  {'close' if one.ok else 'WRONG':5}  {one}" for one in self.outputs]
        wrong = sum(not one.ok for one in self.outputs)
        verb = "differ" if wrong else "agree"
        verb += "" if (wrong or len(lines)) > 1 else "s"
        outputs = f"{wrong} of " * bool(wrong) + format_count(len(lines), "output")
        return "\n".join([f"torch and {self.engine}: {outputs} {verb}", *lines])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def compare(
    module: Any,
    model: ModelLike,
    args: Sequence[Any] | torch.Tensor,
    *,
    kwargs: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    custom_ops: Sequence[str | Path] = (),
) -> TorchComparison:
    """Run a module under torch and a model under ONNX Runtime on the same arguments, and compare every output.

    Outputs are compared in order: their number, dtypes, shapes and values.  Lists, tuples and dicts are flattened.

    Args:
        module: the module, which runs in its current mode, without gradients.
        model: a path, a model in memory, or the result of `surgeon.torch.export`.
        args: arguments of the module.  Its tensors are the inputs of the model: by name if `forward` has the same
            names, otherwise in order.
        kwargs: further arguments, by name.
        rtol: relative tolerance: |model - torch| may be atol + rtol * |torch|.  By default that of
            torch.testing.assert_close, which depends on the dtype.  NaN is close to NaN.
        atol: absolute tolerance, as for rtol.
        custom_ops: libraries for ONNX Runtime, and Python files with implementations.  If ONNX Runtime has no kernel
            for an op, its implementation runs (see `surgeon.implements`, `surgeon.torch.implement`).

    Returns:
        The comparison, with the largest difference of each output and its index.

    Raises:
        CheckFailed: outputs differ (`report` is the comparison, and the message names the worst output), or no runtime
            can run the model.
        UsageError: the arguments do not fit the model.

    Examples:
        >>> import torch, surgeon.torch
        >>> module, x = torch.nn.Softmax(-1), torch.randn(2, 3)
        >>> exported = surgeon.torch.export(module, (x,), exporter="torchscript")
        >>> len(surgeon.torch.compare(module, exported, (x,)).outputs)
        1
    """
    require_tolerances(rtol, atol)
    libraries = require_libraries([str(path) for path in custom_ops])
    args = (args,) if isinstance(args, torch.Tensor) else args
    with contextlib.ExitStack() as stack:
        source, skeleton = _opened(model, stack)
        feeds = _feeds(module, args, kwargs or {}, skeleton)
        kept = restore_buffers(module) if isinstance(module, torch.nn.Module) else contextlib.nullcontext()
        with kept, torch.no_grad():
            expected = tensor_leaves(
                module(*clone_tensors(tuple(args)), **clone_tensors(dict(kwargs or {}))), "The result of the module"
            )
        engine, found = _run(source, feeds, libraries)
    names = [one.name for one in skeleton.graph.output]
    actual = {name: array for name, array in found.items() if not name.startswith(("len(", "keys("))}
    if len(actual) != len(expected):
        raise CheckFailed(
            f"torch returns {_count(len(expected), 'output')}, but the model returns {len(actual)} "
            f"({', '.join(names)}). Export the module unchanged, and keep its outputs."
        )
    gaps = [
        _gap(name, to_numpy(one), actual[name], rtol=rtol, atol=atol)
        for name, one in zip(actual, expected, strict=True)
    ]
    result = TorchComparison(tuple(gaps), engine)
    worst = result.worst
    if worst is not None and not result:
        raise CheckFailed(f"Output '{worst.name}' {worst.why}.", result)
    return result


def _opened(model: Any, stack: contextlib.ExitStack) -> tuple[Path | ModelProto, ModelProto]:
    """The model or its path, and the model without external data.  stack: removes a temporary file."""
    held = model if isinstance(model, ModelProto) else getattr(model, "model", None)
    if isinstance(held, ModelProto):
        return held, held
    if not isinstance(model, (str, os.PathLike)):
        opened, find = stack.enter_context(opened_to_run(model))
        return find(), opened.skeleton
    path = Path(os.fspath(model))
    if not path.is_file():
        raise ModelFileError(f"File not found: {path}")
    return path, onnx.load(str(path), load_external_data=False)


def _run(
    model: Path | ModelProto, feeds: Mapping[str, np.ndarray], libraries: Sequence[str]
) -> tuple[str, dict[str, np.ndarray]]:
    """The runtime that ran the model, and the outputs.  Raises CheckFailed if none can run it."""
    try:
        try:
            with OrtSession(model, libraries, optimised=True) as session:
                return ONNX_RUNTIME, session.run(feeds)
        except SessionError as refused:
            if not refused.is_unsupported:
                raise
            with open_oracle(_whole(model), libraries) as oracle:
                return oracle.name, oracle.run(feeds)
    except SessionError as refused:
        fix = (
            "Give custom_ops, or an implementation of the operator" if refused.is_unsupported else "Correct the model"
        )
        raise CheckFailed(f"The model does not run ({refused.message.rstrip('.')}). {fix}.") from refused


def _whole(model: Path | ModelProto) -> ModelProto:
    if isinstance(model, ModelProto):
        return model
    with Model.open(model) as opened:
        return opened.whole()


def _feeds(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], model: ModelProto) -> dict[str, np.ndarray]:
    """The inputs of the model.  Raises UsageError if the number of tensors in the arguments differs."""
    held = {one.name for one in model.graph.initializer}
    wanted = [one.name for one in model.graph.input if one.name not in held]
    by_name = _by_name(module, args, kwargs)
    if by_name.keys() >= set(wanted):
        return {name: to_numpy(by_name[name]) for name in wanted}
    given = [leaf for leaf in _pytree.tree_leaves([list(args), dict(kwargs)]) if isinstance(leaf, torch.Tensor)]
    if len(given) != len(wanted):
        raise UsageError(
            f"The arguments contain {_count(len(given), 'tensor')}, but the model has {_count(len(wanted), 'input')} "
            f"({', '.join(wanted) or 'none'}). Give the arguments with which it was exported."
        )
    return {name: to_numpy(tensor) for name, tensor in zip(wanted, given, strict=True)}


def _by_name(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors by the parameter names of `forward`, as `export` names the inputs."""
    try:
        tensors = argument_tensors(bind_arguments(module, args, kwargs))
    except ValueError:  # a C++ function without a signature
        return {}
    return dict(zip(tensor_names(tensors), (tensor for _, tensor in tensors), strict=True))


def _gap(name: str, torchs: np.ndarray, models: np.ndarray, rtol: float | None, atol: float | None) -> OutputGap:
    """Compare one output."""
    dtype = dtype_name(torchs)
    usual = TOLERANCES.get(dtype, (0.0, 0.0))
    rtol, atol = usual[0] if rtol is None else rtol, usual[1] if atol is None else atol
    gap_of = partial(OutputGap, name, dtype, torchs.shape, rtol=rtol, atol=atol)
    different = ""
    if dtype_name(models) != dtype:
        different = f"is {dtype_name(models)}, but {dtype} in torch"
    elif models.shape != torchs.shape:
        none = "" if torchs.shape else " (a scalar)"
        different = f"has shape {list(models.shape)}, but {list(torchs.shape)}{none} in torch"
    if different:
        return gap_of(max_abs=math.inf, max_rel=math.inf, at=(), why=different)
    a, b = _wide(torchs), _wide(models)
    with np.errstate(all="ignore"):
        # Compare unconverted: float64 does not hold every int64.  Equal infinities and two NaNs count as equal.
        equal = (torchs == models) | (np.isnan(a) & np.isnan(b))
        gap = np.where(equal, 0.0, np.abs(b - a))
        gap = gap if dtype in TOLERANCES else np.where(equal, 0.0, np.maximum(gap, 1.0))
        relative = np.where(equal, 0.0, gap / np.abs(a))
        close = equal | (np.isfinite(gap) & (gap <= atol + rtol * np.abs(a)))
    gap = np.where(np.isnan(gap), np.inf, gap)
    at = tuple(int(place) for place in np.unravel_index(np.argmax(gap), gap.shape)) if gap.size else ()
    wrong = int(np.count_nonzero(~close))
    biggest = float(gap.max(initial=0.0))
    by_element = np.where(np.isnan(relative), np.inf, relative)
    why = ""
    if wrong:
        place = f" at {list(at)}" if at else ""
        difference = f"differs from torch in {wrong} of {close.size} elements, by at most {biggest:.3g}{place}"
        why = f"{difference}; allowed are {rtol:g} relative and {atol:g} absolute"
    return gap_of(max_abs=biggest, max_rel=float(by_element.max(initial=0.0)), at=at, why=why)


def _wide(array: np.ndarray) -> np.ndarray:
    """The numbers in float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _severity(one: OutputGap) -> tuple[bool, float]:
    return (not one.ok, one.max_abs)


def _count(number: int, what: str) -> str:
    return format_count(number, what) if number else f"no {what}s"
