"""The harness of the sealed faults: what one is, whether it is one, and what the proof says of it.

The faults themselves are in the package `sealed`, which nobody who develops the proof engine reads.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import surgeon
from surgeon import Rule
from tests.mutation.building import initializers, rule_of, written

HEADER = '<ir_version: 9, opset_import: ["" : {opset}]> agraph '
OUTCOMES = ("failed", "unproved", "proved", "not written", "error")
STOPPED = ("failed", "unproved")
PROCESSES = 2  # each starts further processes for proofs
APART = {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-9}
"""By how much of a number, or of a thousandth of the largest, a fault differs: at least 8 units in the last place of
float16 and 800 of float32, more than another order of the same sums changes."""
ALIKE = 0.1  # of that is what a control may differ by
FLAT = 1e-3  # of the largest number: what is smaller is compared with so much

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Sealed:
    """A rewrite, wrong or right, with an input on which that shows."""

    kind: str
    """The kind of mistake, by which outcomes are counted."""
    sentence: str
    """What is wrong, or right; its name too."""
    ports: str
    """The inputs and outputs of both sides, as ONNX text."""
    original: str
    """The nodes that the rule looks for."""
    replacement: str
    """The nodes that it writes."""
    opset: int
    arrays: Mapping[str, Any]
    """By name the inputs on which the fault shows, and the constants of both sides."""
    is_control: bool
    """Whether the rewrite is right."""

    def side(self, body: str) -> onnx.ModelProto:
        """One side as a model, with the constants that it reads."""
        model = onnx.parser.parse_model(f"{HEADER.format(opset=self.opset)} {self.ports} {{ {body} }}")
        ports = {port.name for port in model.graph.input}
        read = set(_read(model.graph)) - ports
        arrays = ((name, _array(value)) for name, value in self.arrays.items() if name in read)
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays)
        return model

    def sides(self) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        """The original and the replacement."""
        return self.side(self.original), self.side(self.replacement)

    def feeds(self, model: onnx.ModelProto) -> Arrays:
        """The input on which the fault shows, in the dtypes of the ports."""
        kinds = {port.name: port.type.tensor_type.elem_type for port in model.graph.input}
        dtypes = {name: onnx.helper.tensor_dtype_to_np_dtype(kind) for name, kind in kinds.items()}
        return {name: np.asarray(self.arrays[name], dtype) for name, dtype in dtypes.items()}

    def rule(self) -> Rule:
        """The rule that replaces the one by the other."""
        sides = self.sides()
        given, made = ([port.name for port in ports] for ports in (sides[0].graph.input, sides[0].graph.output))
        return rule_of(*(written(side.graph.node, initializers(side.graph), given, made) for side in sides), "sealed")


SEALED: dict[str, Sealed] = {}


def fault(kind: str, sentence: str, ports: str, *, right: str, wrong: str, opset: int = 18, **arrays: Any) -> None:
    """Add a wrong rewrite.  arrays: by name its input, and constants: Python numbers are float32, int64 or bool."""
    _add(Sealed(kind, sentence, ports, right, wrong, opset, arrays, is_control=False))


def control(kind: str, sentence: str, ports: str, *, right: str, same: str, opset: int = 18, **arrays: Any) -> None:
    """Add a rewrite that is right for every input, with arrays as for `fault`."""
    _add(Sealed(kind, sentence, ports, right, same, opset, arrays, is_control=True))


def _add(one: Sealed) -> None:
    assert one.sentence not in SEALED, one.sentence
    SEALED[one.sentence] = one


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Normal numbers as float32, the same in each run."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def counting(*shape: int) -> np.ndarray[Any, Any]:
    """0, 1, 2, … as float32, no two alike."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def _array(value: Any) -> np.ndarray[Any, Any]:
    """A constant: arrays as they are, Python's floats as float32."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _read(graph: onnx.GraphProto) -> Iterator[str]:
    """The names that the nodes of a graph read, those of its bodies too."""
    for node in graph.node:
        yield from node.input
        for item in node.attribute:
            if item.HasField("g"):
                yield from _read(item.g)
                yield from (port.name for port in item.g.output)
    yield from (port.name for port in graph.output)


def answers(model: onnx.ModelProto, feeds: Arrays) -> list[np.ndarray[Any, Any]] | str:
    """What ONNX Runtime answers, without optimizations, or the first line of why it does not."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(feeds)))
    except Exception as error:  # noqa: BLE001  ONNX Runtime raises its own classes
        return str(error).splitlines()[0]


def distance(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    """How far two answers are apart, in units of APART: 0 for the same, infinity where no rounding explains it."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return np.inf
    if one.dtype.kind != "f":
        return 0.0 if np.array_equal(one, other) else np.inf
    a, b = one.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    a, b = a[finite], b[finite]
    if not a.size:
        return 0.0
    scale = np.maximum(np.abs(a), FLAT * np.abs(a).max())
    gap = np.abs(a - b)
    return float(np.max(np.divide(gap, scale, out=np.where(gap > 0, np.inf, 0.0), where=scale > 0)) / APART[one.dtype])


def objection(one: Sealed) -> str:
    """Why a fault is none, or a control is one, on its input; "" where both sides do as is said of them."""
    sides = one.sides()
    feeds = one.feeds(sides[0])
    before, after = (answers(side, feeds) for side in sides)
    return _objection(one, before, after)


def objection_to_rule(one: Sealed) -> str:
    """Why the rule does not write the replacement; "" where it does.  Nothing is proved."""
    original, replacement = one.sides()
    feeds = one.feeds(original)
    rewritten, report = surgeon.rewrite(original, one.rule(), target="onnx", check="none")
    if not report.sites:
        return report.misses[0].reason if report.misses else "nothing matched"
    before, wanted, found = (answers(side, feeds) for side in (original, replacement, rewritten))
    if isinstance(wanted, str) != isinstance(found, str):
        return f"the replacement answers {wanted}, the rewritten model {found}"
    if not isinstance(wanted, str) and max(map(distance, wanted, found)) > ALIKE:
        return "the rewritten model is not the replacement"
    return _objection(one, before, found)


def _objection(one: Sealed, before: Any, after: Any) -> str:
    if isinstance(before, str):
        return f"the original does not run: {before}"
    if isinstance(after, str):
        return f"the replacement does not run: {after}"
    furthest = max(map(distance, before, after))
    if one.is_control:
        return f"the sides differ by {furthest:g} of a fault" if furthest > ALIKE else ""
    return "" if furthest > 1 else f"the sides differ by only {furthest:g} of what makes a fault"


def outcome(one: Sealed) -> str:
    """What the proof says: one of OUTCOMES, without the reason, which would tell what the fault is."""
    try:
        _, report = surgeon.rewrite(one.side(one.original), one.rule(), target="onnx", check="sites", keep_going=True)
    except Exception as error:  # noqa: BLE001  counted, as one crash must not cost the run of the release
        print(f"the engine raised {type(error).__name__}", file=sys.stderr, flush=True)
        return "error"
    sites = [*report.sites, *report.rolled_back]
    return str(sites[0].outcome) if sites else "not written"


def outcomes(sentences: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What the proofs say of each, two at a time."""
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        yield from zip(sentences, pool.map(_outcome, sentences), strict=True)


def _outcome(sentence: str) -> str:
    import tests.mutation.sealed  # noqa: F401  a new process knows no faults yet

    return outcome(SEALED[sentence])


def lines(found: Mapping[str, str]) -> list[str]:
    """A table of counts by kind, in which only the proved count as passed, and a line for the controls."""
    counts: dict[str, Counter[str]] = {}
    for sentence, said in found.items():
        one = SEALED[sentence]
        counts.setdefault("(controls)" if one.is_control else one.kind, Counter())[said] += 1
    faults = {kind: counted for kind, counted in sorted(counts.items()) if kind != "(controls)"}
    total = sum(faults.values(), Counter[str]())
    rows = [*faults.items(), ("all faults", total)]
    rows += [("right rewrites", counts["(controls)"])] if "(controls)" in counts else []
    width = max(len(kind) for kind, _ in rows)
    head = f"{'':{width}}  " + "  ".join(f"{said:>11}" for said in OUTCOMES)
    table = [f"{kind:{width}}  " + "  ".join(f"{counted[said]:11,}" for said in OUTCOMES) for kind, counted in rows]
    stopped = sum(total[said] for said in STOPPED)
    return [head, *table, f"stopped: {stopped:,} of {total.total():,} faults; passed: {total['proved']:,}"]


def passed(found: Mapping[str, str]) -> Iterable[str]:
    """The sentences of the faults that the proof let pass, and of the controls that it called wrong."""
    for sentence, said in found.items():
        one = SEALED[sentence]
        if said == ("failed" if one.is_control else "proved"):
            yield f"{'called wrong' if one.is_control else 'passed'}: {one.kind}: {sentence}"
