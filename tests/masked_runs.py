"""`python -m tests.masked_runs`: attentions of every kind of mask, rewritten, and held against themselves.

Both whole models run under ONNX Runtime, its own optimizations off, on inputs that hide nothing, single keys, whole
rows and everything, at sizes that are chosen here.  Nothing of surgeon's proofs is used.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime

import surgeon
from tests.masked_models import KINDS, LAYOUTS, LOWS, SHAPES, Masked

SIZES = ({"b": 2, "s": 5, "t": 5, "p": 3}, {"b": 1, "s": 3, "t": 6, "p": 1}, {"b": 3, "s": 1, "t": 9, "p": 4})
HIDES = ("nothing", "holes", "rows", "all")
OPSETS = {"ort": 17, "onnx": 23}
TOLERANCES = {"float": 1e-4, "float16": 4e-2}
"""Of the largest number of a result."""
COARSE = 2e-2
"""In float32, where a finite low number is added to scores: their last digits are lost, one way or another."""


def every() -> tuple[Masked, ...]:
    """All of them."""
    product = itertools.product(KINDS, LAYOUTS, SHAPES, (False, True), LOWS)
    drawn = (
        Masked(kind, low, dtype, layout, shape, is_guarded)
        for kind, layout, shape, is_guarded, dtype in product
        for low in LOWS[dtype]
    )
    return tuple(one for one in drawn if not (one.is_guarded and one.is_zeroed))


def rewritten(one: Masked, target: str) -> tuple[onnx.ModelProto, onnx.ModelProto, surgeon.Report]:
    """The model, and what the rules of transformers make of it, nothing proved."""
    model = replace(one, opset=OPSETS[target]).model()
    made, report = surgeon.rewrite(model, "transformers", target=target, check="none")
    return model, made, report


def faults(one: Masked, target: str) -> Iterator[str]:
    """What is wrong: an attention that is not found, or should not be, and results that differ."""
    model, made, report = rewritten(one, target)
    is_found = any("Attention" in node.op_type for node in made.graph.node)
    if is_found == one.is_left(target):
        reasons = "; ".join(miss.reason for miss in report.misses if "attention" in miss.rule)
        yield "found, though it cannot be kept as it is" if is_found else f"not found: {reasons}"
    if not is_found:
        return
    before, after = session(model), session(made)
    for seed, (sizes, hides) in enumerate(itertools.product(SIZES, HIDES)):
        fed = one.feeds(model, sizes, hides, seed)
        wanted, given = (run(fed).astype(np.float64) for run in (before, after))
        reported = differs(wanted, given, tolerance(one))
        if reported:
            yield f"{sizes}, {hides} hidden: {reported}"


def tolerance(one: Masked) -> float:
    """What results may differ by, as a part of the largest number."""
    is_added = "Add(z, " in KINDS[one.kind] or "Add(w, " in KINDS[one.kind] or "Add(s0" in KINDS[one.kind]
    return max(TOLERANCES[one.dtype], COARSE if is_added and np.isfinite(one.low) else 0)


def differs(wanted: np.ndarray, given: np.ndarray, part: float) -> str:
    """How two results differ, if they do."""
    real = np.isfinite(wanted)
    if wanted.shape != given.shape or not np.array_equal(real, np.isfinite(given)):
        return "another shape, or NaN at other places"
    off, scale = np.abs(wanted - given)[real].max(initial=0), np.abs(wanted[real]).max(initial=0)
    return f"off by {off:.2g} of {scale:.2g}" if off > part * scale else ""


def session(model: onnx.ModelProto):  # type: ignore[no-untyped-def]
    """What runs a model and gives its one output."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    opened = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda fed: opened.run(None, fed)[0]


def main() -> int:
    """Command line; the exit code is 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.masked_runs", description=__doc__)
    parser.add_argument("--target", choices=OPSETS, action="append", help="of the two targets, this one alone")
    parser.add_argument("--count", type=int, help="so many of all, drawn by chance")
    parser.add_argument("--seed", type=int, default=0, help="of that chance")
    options = parser.parse_args()
    chosen = list(every())
    random.Random(options.seed).shuffle(chosen)
    wrong = runs = 0
    for one in chosen[: options.count]:
        for target in options.target or OPSETS:
            runs += 1
            for text in itertools.islice(faults(one, target), 1):
                wrong += 1
                print(f"{one}, target {target}: {text}", flush=True)
    print(f"{runs} attentions of {len(chosen)} kinds, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
