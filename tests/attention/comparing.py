"""Whole models under ONNX Runtime: the same inputs to both, and decoding step by step against decoding at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import onnxruntime

from surgeon.runtime.numerics.array_comparison import TOLERANCES
from tests.attention.exporting import Export
from tests.attention.inputs import SIZES, Arrays, Input, arrays
from tests.matrix.peers import first_line

STEPS = 4
Outputs = dict[str, np.ndarray]


def feeds(inputs: Mapping[str, Input], dtype: str, dynamic: bool) -> Iterator[tuple[str, Arrays]]:
    """Arrays to compare models on, each with what it is: several sizes, batches of 1 and 3, and both paddings.

    Where nothing is dynamic, only the sizes of the export.
    """
    free = {size for one in inputs.values() for size in one.shape if isinstance(size, str)}
    masked = any(one.role in ("mask", "seen", "bias") for one in inputs.values())
    wanted: list[dict[str, int]] = [{}]
    if dynamic:
        wanted = [{"batch": 1}, {"batch": 3, "sequence": 5, "past": 9, "target": 3}]
        wanted += [{"batch": 3, "sequence": 12, "past": 2, "target": 8, "memory": 9}]
        wanted += [{"batch": 1, "sequence": 1, "target": 1}] * bool(free & {"past"})
    seeds = count()
    for sizes in wanted:
        used = {name: size for name, size in {**SIZES, **sizes}.items() if name in free}
        message = ", ".join(f"{name} {size}" for name, size in used.items())
        for padding in ("", "left", "right") if masked and used.get("batch", 2) > 1 else ("",):
            yield f"{message}{', padded ' * bool(padding)}{padding}", arrays(inputs, dtype, sizes, padding, next(seeds))


class Model:
    """A file opened with ONNX Runtime, its own optimizations off."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.takes = [item.name for item in self.session.get_inputs()]
        self.gives = [item.name for item in self.session.get_outputs()]

    def __call__(self, fed: Arrays) -> Outputs:
        given = {name: fed[name] for name in self.takes}
        return dict(zip(self.gives, self.session.run(None, given), strict=True))


def opened(path: Path) -> Model | str:
    """The model, or why ONNX Runtime does not open it."""
    try:
        return Model(path)
    except Exception as error:  # noqa: BLE001  ORT has a class of its own for each kind of failure
        return first_line(error)


def ran(model: Model, fed: Arrays) -> Outputs | str:
    """The outputs, or why there are none."""
    try:
        return model(fed)
    except Exception as error:  # noqa: BLE001  ORT has a class of its own for each kind of failure
        return first_line(error)


@dataclass(frozen=True)
class Truth:
    """What the exporter's own model answers: for each set of inputs that it can run, its outputs.

    refused: sets of inputs that it does not run, each with why.  steps: whether it decodes step by step as at once.
    """

    answers: tuple[tuple[str, Arrays, Outputs], ...]
    refused: tuple[str, ...]
    steps: str


def answers(export: Export) -> Truth | str:
    """Run the original on all inputs; why it cannot be opened, if so."""
    assert export.path is not None
    model = opened(export.path)
    if isinstance(model, str):
        return model
    found, refused = [], []
    for text, fed in feeds(export.inputs, export.case.dtype, export.case.dynamic):
        given = ran(model, fed)
        if isinstance(given, str):
            refused.append(f"{text}: {given}")
        else:
            found.append((text, fed, given))
    return Truth(tuple(found), tuple(refused), "; ".join(stepwise(model, export)))


def differences(truth: Truth, path: Path, dtype: str) -> Iterator[str]:
    """How another model fails or differs: a line for each set of inputs where it does."""
    model = opened(path)
    if isinstance(model, str):
        yield f"does not open: {model}"
        return
    for text, fed, wanted in truth.answers:
        given = ran(model, fed)
        wrong = f"does not run: {given}" if isinstance(given, str) else differs(wanted, given, dtype)
        if wrong:
            yield f"{text}: {wrong}"


def differs(wanted: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], dtype: str, times: float = 1.0) -> str:
    """The first output that is not equal within the tolerance of the dtype, with how far it is off."""
    rtol, atol = TOLERANCES[{"fp32": "float32", "fp16": "float16"}[dtype]]
    for name, one in wanted.items():
        other = found.get(name)
        if other is None or other.shape != one.shape or other.dtype != one.dtype:
            given = "missing" if other is None else f"{other.dtype} of {other.shape}"
            return f"{name} is {given}, not {one.dtype} of {one.shape}"
        if not one.size or one.dtype.kind != "f":
            if not np.array_equal(one, other):
                return f"{name} differs"
            continue
        a, b = one.astype(np.float64), other.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return f"{name} is not finite where it was, or was not where it is"
        real = np.isfinite(a)
        scale, off = np.abs(a[real]).max(initial=0.0), np.abs(a[real] - b[real]).max(initial=0.0)
        if off > times * (atol + rtol * scale):
            return f"{name} is off by {off:.2g} of {scale:.2g}"
    return ""


def stepwise(model: Model, export: Export) -> Iterator[str]:
    """How decoding one word after the other differs from decoding them at once; nothing for models without a past."""
    if not export.loops or not export.case.dynamic:
        return
    length = "target" if any("target" in one.shape for one in export.inputs.values()) else "sequence"
    words = next(name for name, one in export.inputs.items() if one.role == "ids")
    for batch in (1, 3):
        sizes = {"batch": batch, length: STEPS, "past": 3}
        whole = arrays(export.inputs, export.case.dtype, sizes)
        wanted = ran(model, whole)
        if isinstance(wanted, str):
            yield f"batch {batch}: {wanted}"
            continue
        logits, *_ = model.gives
        state, rows = dict(whole), []
        for step in range(STEPS):
            state[words] = whole[words][:, step : step + 1]
            state |= {
                name: np.ones((batch, sizes["past"] + step + 1), np.int64)
                for name, one in export.inputs.items()
                if one.role == "mask" and "total" in one.shape
            }
            given = ran(model, state)
            if isinstance(given, str):
                yield f"batch {batch}, step {step}: {given}"
                break
            rows.append(given[logits])
            state |= {name: given[other] for name, other in export.loops.items()}
        else:
            reported = differs({logits: wanted[logits]}, {logits: np.concatenate(rows, 1)}, export.case.dtype, times=4)
            if reported:
                yield f"batch {batch}: {reported}"
