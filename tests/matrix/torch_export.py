"""The torch side of the matrix: count a form, and export a family of forms as one model.

Loaded only where an export is missing, as it imports torch.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests import truth
from tests.matrix.forms import Form

TYPES = {"fp32": torch.float32, "fp16": torch.float16}


class Family(nn.Module):
    """Forms side by side, each with inputs and outputs of its own."""

    def __init__(self, modules: Sequence[nn.Module], arities: Sequence[int]) -> None:
        super().__init__()
        self.forms = nn.ModuleList(modules)
        self.arities = tuple(arities)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs: list[torch.Tensor] = []
        start = 0
        for form, arity in zip(self.forms, self.arities, strict=True):
            found = form(*inputs[start : start + arity])
            start += arity
            outputs += found if isinstance(found, tuple) else [found]
        return tuple(outputs)


def count(form: Form, dtype: str) -> dict[str, int]:
    """How often each operation runs in one pass of the form."""
    return dict(truth.count(*form.make(TYPES[dtype])))


def outputs_of(form: Form, dtype: str) -> int:
    """How many tensors the form gives."""
    module, inputs = form.make(TYPES[dtype])
    with torch.no_grad():
        found = module(*inputs)
    return len(found) if isinstance(found, tuple) else 1


def export(forms: Sequence[Form], exporter: str, opset: int, dtype: str, path: Path, dynamic: bool) -> None:
    """Write the forms as one ONNX model; inputs are x0_0, x0_1, x1_0, ... and outputs y0_0, y1_0, ... by form.

    dynamic: leave the first axis of every input free.  Raises whatever the exporter raises.
    """
    made = [form.make(TYPES[dtype]) for form in forms]
    inputs = tuple(x for _, xs in made for x in xs)
    names = [f"x{place}_{part}" for place, (_, xs) in enumerate(made) for part in range(len(xs))]
    outputs = [f"y{place}_{part}" for place, form in enumerate(forms) for part in range(outputs_of(form, dtype))]
    common: dict[str, Any] = {"opset_version": opset, "input_names": names, "output_names": outputs}
    if exporter == "ts":
        axes = {name: {0: f"batch{name.partition('_')[0][1:]}"} for name in names}
        common |= {"dynamo": False, "dynamic_axes": axes if dynamic else {}}
    else:
        free = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
        shapes = {"dynamic_shapes": (free,)} if dynamic else {}  # *inputs is one parameter
        common |= {"dynamo": True, "external_data": False, "verbose": False, **shapes}
    family = Family([module for module, _ in made], [len(xs) for _, xs in made]).eval()
    with quiet(), torch.no_grad():
        torch.onnx.export(family, inputs, str(path), **common)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the exporters' warnings and progress, also what torch's C++ prints; their exceptions come through."""
    logging.disable(logging.ERROR)
    kept = [(stream, os.dup(stream.fileno())) for stream in (sys.__stdout__, sys.__stderr__) if stream is not None]
    try:
        with warnings.catch_warnings(), open(os.devnull, "w", encoding="utf-8") as nowhere:
            warnings.simplefilter("ignore")
            for stream, _ in kept:
                stream.flush()
                os.dup2(nowhere.fileno(), stream.fileno())
            with contextlib.redirect_stdout(nowhere):
                yield
    finally:
        for stream, descriptor in kept:
            os.dup2(descriptor, stream.fileno())
            os.close(descriptor)
        logging.disable(logging.NOTSET)
