"""Whether a converted model is right: it loads, the checker passes it, it is well typed, its answers are near."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from surgeon.file.model import Model
from surgeon.precision.writing.type_check import type_errors
from surgeon.runtime.inputs.consistent_sizes import candidate_sizes
from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown
from surgeon.runtime.inputs.role_fills import CALM, SAMPLED, mask

NEAR = 0.02
ORDER = ("right", "crashed", "refused by ONNX Runtime", "off by more", "refused by onnx.checker", "ill typed")
BOUND = 32752.0
CLEAR = 2.0**-18, 1 - 2.0**-10  # probabilities that float16 tells from zero by six bits, and from one


def judged(source: Path, made: Path) -> tuple[str, float]:
    """What a converted model is, of ORDER, or "untold" where the original does not run; and how far it moves."""
    reader, writer = os.pipe()
    child = os.fork()  # a converted model may end the process that runs it
    if not child:
        try:
            reported, moved = _judged(source, made)
        except BaseException as error:  # noqa: BLE001  # whatever goes wrong is said
            reported, moved = f"crashed: {type(error).__name__}: {error}", np.inf
        os.write(writer, f"{moved} {reported}".encode()[:2000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read().decode("utf-8", "replace")
    os.waitpid(child, 0)
    number, _, reported = text.partition(" ")
    return (reported, float(number)) if reported else ("refused by ONNX Runtime", np.inf)


def _judged(source: Path, made: Path) -> tuple[str, float]:
    try:
        before = opened(source)
    except Exception:  # noqa: BLE001
        return "untold", 0.0
    try:
        after = opened(made)
    except Exception as error:  # noqa: BLE001
        return f"refused by ONNX Runtime: {error}", np.inf
    worst, runs = 0.0, 0
    graph = onnx.load(source, load_external_data=False).graph
    makers = {name: node.op_type for node in graph.node for name in node.output}
    squashed = [makers.get(value.name) == "Sigmoid" for value in graph.output]
    for feeds in fed(source):
        try:
            wanted = before.run(None, feeds)
        except Exception:  # noqa: BLE001
            continue
        if all(np.isnan(array).all() for array in wanted if array.dtype.kind == "f" and array.size):
            continue
        runs += 1
        try:
            found = after.run(None, feeds)
        except Exception as error:  # noqa: BLE001
            return f"refused by ONNX Runtime: {error}", np.inf
        three = zip(wanted, found, squashed, strict=True)
        worst = max([worst, *(apart(one, two, by_logits=is_squashed) for one, two, is_squashed in three)])
        if runs == 1:
            break
    if not runs:
        return "untold", 0.0
    if worst > NEAR:
        return "off by more", worst
    try:
        onnx.checker.check_model(str(made), full_check=True)
    except Exception as error:  # noqa: BLE001
        return f"refused by onnx.checker: {error}", worst
    with Model.open(made) as model, Model.open(source) as original:
        faults = set(type_errors(model)) - set(type_errors(original))
    return (f"ill typed: {sorted(faults)[0]}", worst) if faults else ("right", worst)


def fed(source: Path) -> Iterator[dict[str, np.ndarray]]:
    """Inputs made to fit."""
    with Model.open(source) as model:
        try:
            plan = InputGenerator(model.skeleton)
        except InputsUnknown:
            return
    # Masks that hide no row whole, of which nobody reads the answer.
    gaps = {want.name: mask("gaps") for want in plan.wants if want.kind == "mask"}
    for fills, usual in ((gaps, SAMPLED), ({}, CALM)):
        for sizes in candidate_sizes(source, plan, {}):
            yield plan.generate(0, sizes, fills, usual)


def opened(path: Path) -> Any:
    """A model under ONNX Runtime, as it stands."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return ort.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def apart(one: Any, two: Any, *, by_logits: bool = False) -> float:
    """How far two outputs lie apart, as a part of their scale.  by_logits: as what a Sigmoid made them of."""
    if not isinstance(one, np.ndarray):
        return 0.0
    if one.dtype != two.dtype or one.shape != two.shape:
        return np.inf
    if one.dtype.kind != "f":
        return 0.0
    usual = np.isfinite(one)
    if np.isnan(two[usual]).any():
        return np.inf
    if by_logits:
        one, two = (np.log(side / (1 - side)) for side in (np.clip(one, *CLEAR), np.clip(two, *CLEAR)))
    one, two = np.clip(one[usual], -BOUND, BOUND), np.clip(two[usual], -BOUND, BOUND)
    scale = np.abs(one[np.abs(one) < BOUND]).max(initial=1e-6)
    return float(np.abs(one - two).max(initial=0.0) / scale)
