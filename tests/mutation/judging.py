"""Whether a mutant that a proof let pass is wrong: both models run under ONNX Runtime on inputs that proofs do not use.

The rule's own replacement, unchanged, runs beside them: by how much it differs from the original is what rounding does,
and where it differs on purpose the mutant may too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime

from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from tests.mutation.feeds import Feeds, make, settings
from tests.mutation.tolerated import Tolerated

PLACES = {np.dtype(np.float16): 8, np.dtype(ml_dtypes.bfloat16): 4}  # units in the last place that are rounding
CANCELLED = 1e4
OF_SCALE = 8  # units of the largest number that halves may differ by, which is what proofs allow them
MAX_PLACES, NOISE = 256, 16  # of other dtypes; times what the unchanged replacement differs by
DECLARED = {
    "non_finite": ("non_finite",),
    "extreme": ("exponents", "middle", "levels"),
    "zeros": ("zeros",),
    "denormals": ("exponents", "levels"),
    "small": ("tiny", "exponents", "levels"),
    "constant_rows": ("rows",),
    "offset": ("large", "middle"),
}
"""By the kind of input for which a rule says that it differs the kinds here that hold such."""
SAME, HOLE, UNTRIED = "no difference found", "HOLE", "not run"


@dataclass(frozen=True)
class Opinion:
    """What the second look found: SAME, HOLE or UNTRIED, where it shows, and how many sets of inputs ran."""

    kind: str
    reason: str = ""
    runs: int = 0


def judge(
    original: onnx.ModelProto,
    right: onnx.ModelProto,
    mutant: onnx.ModelProto,
    apart: Collection[str] = (),
    slack: float = 0.0,
) -> Opinion:
    """Run all three on the same inputs; a hole is a difference that neither rounding nor the rule explains.

    apart: the kinds of inputs for which the rule says that it differs (`surgeon.rule`), which are left out.
    slack: how far it says that it changes numbers.
    """
    tolerated = Tolerated(original, right, slack=slack)
    try:
        sessions = _sessions((original, right, mutant))
    except Exception as error:  # noqa: BLE001  ONNX Runtime raises its own classes, and what kernels raise
        return Opinion(UNTRIED, _line(error))
    same, excuses = True, dict[str, None]()
    runs, why, names = 0, "no inputs ran", [item.name for item in original.graph.output]
    left_out = {kind for one in apart for kind in DECLARED.get(one, ())}
    for setting in settings(original):
        if setting.kind in left_out:
            continue
        feeds = make(original, setting)
        if feeds is None:
            continue
        answers: list[list[np.ndarray[Any, Any]]] = []
        for at, session in enumerate(sessions):
            try:
                answers.append(session.run(None, feeds))
            except Exception as error:  # noqa: BLE001
                if at == 2:
                    return Opinion(HOLE, f"it does not run: {_line(error)} ({setting})", runs)
                why = _line(error)
                break
        if len(answers) == 3:
            runs += 1
            same = same and all(map(_same_bits, answers[1], answers[2]))
            for name, each in zip(names, zip(*answers, strict=True), strict=True):
                reason, excuse = _told(each, tolerated.of(feeds, each[0]), finite="non_finite" in apart)
                if reason:
                    return Opinion(HOLE, f"{name!r} {reason} ({setting})", runs)
                excuses.update(dict.fromkeys(excuse))
    if not runs:
        return Opinion(UNTRIED, why)
    message = "the same bits" if same else "the same but for rounding"
    if excuses:
        message = f"within {' and '.join(excuses)}"
    less = f", without {' and '.join(sorted(left_out))}, where the rule may differ" if left_out else ""
    return Opinion(SAME, f"{message} on {runs} sets of inputs{less}", runs)


def _told(each: Sequence[Any], tolerated: Iterable[tuple[str, Any]], *, finite: bool) -> tuple[str, list[str]]:
    """How one output differs, "" where it does not, and what excuses it."""
    reason = difference(*each, finite=finite)
    if reason:
        for why, allowed in tolerated:
            if not difference(*each, finite=finite, allowed=allowed):
                return "", [why]
    return reason, []


def _same_bits(one: Any, other: Any) -> bool:
    return bool(np.asarray(one).tobytes() == np.asarray(other).tobytes())


def _session(model: onnx.ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class _Evaluated:
    """What stands in for a session where ONNX Runtime has no kernels: the formulas that references are computed by."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._evaluator, self._names = EvaluatorSession(model), [item.name for item in model.graph.output]

    def run(self, _: None, feeds: Feeds) -> list[np.ndarray[Any, Any]]:
        """The outputs in order."""
        made = self._evaluator.run(feeds)
        return [made[name] for name in self._names]


def _sessions(models: Sequence[onnx.ModelProto]) -> list[Any]:
    """What runs each.  Raises what the formulas say where nothing does."""
    try:
        return [_session(model) for model in models]
    except Exception:  # noqa: BLE001  ONNX Runtime raises its own classes
        return [_Evaluated(model) for model in models]


def difference(original: Any, right: Any, mutant: Any, *, finite: bool = False, allowed: Any = 0.0) -> str:
    """How a mutant's answer differs from the original's, beyond what the unchanged replacement's does; "" if not.

    finite: only finite numbers tell, as the rule differs for others.  allowed: how far all, or each, may differ in any
    case.
    """
    if not isinstance(original, np.ndarray) or original.shape != right.shape or original.dtype != right.dtype:
        return ""  # nothing to hold against
    if original.shape != mutant.shape or original.dtype != mutant.dtype:
        return f"is {mutant.dtype}{list(mutant.shape)} and not {original.dtype}{list(original.shape)}"
    if original.dtype.kind not in "fV":
        odd = (original == right) & (original != mutant)
        return f"differs at {int(odd.sum())} of {odd.size}" if odd.any() else ""
    a, b, c = (np.asarray(item, np.float64) for item in (original, right, mutant))
    with np.errstate(all="ignore"):
        message = "" if finite and not np.isfinite(a).all() else _unlike(a, b, c)
        return message or _far(a, b, c, original.dtype, allowed)


def _unlike(a: Any, b: Any, c: Any) -> str:
    """NaN and infinity at other places."""
    same = (np.isnan(a) == np.isnan(b)) & (np.isinf(a) == np.isinf(b)) & (~np.isinf(a) | (a == b))
    odd = same & ((np.isnan(a) != np.isnan(c)) | (np.isinf(a) != np.isinf(c)) | (np.isinf(a) & (a != c)))
    if not odd.any():
        return ""
    place = np.unravel_index(int(odd.argmax()), odd.shape)
    return f"is {c[place]:.4g} and not {a[place]:.4g} at {int(odd.sum())} of {odd.size}"


def _far(a: Any, b: Any, c: Any, dtype: np.dtype[Any], declared: Any) -> str:
    """Finite numbers too far apart.  What rounding does is taken from numbers of about the same magnitude."""
    eps, tiny = float(ml_dtypes.finfo(dtype).eps), float(ml_dtypes.finfo(dtype).tiny)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    if not finite.any():
        return ""
    own, noise, gap = np.abs(a), np.where(finite, np.abs(b - a), 0.0), np.where(finite, np.abs(c - a), 0.0)
    decade = np.floor(np.log10(np.maximum(own, tiny)) / 2)
    worst = np.zeros_like(own)
    for one in np.unique(decade[finite]):
        worst[decade == one] = noise[finite & (decade <= one)].max(initial=0.0)
    scale = own[finite].max() if dtype in PLACES else 0.0
    row = np.where(finite, own, 0.0).max(axis=-1, keepdims=True, initial=0.0) if own.ndim else own
    beside = np.minimum(row, CANCELLED * own)  # what a sum loses of a number that is small beside others of its row
    allowed = PLACES.get(dtype, MAX_PLACES) * (eps * own + tiny * eps) + NOISE * (worst + eps * beside)
    allowed += OF_SCALE * eps * scale + declared + tiny  # below which some kernels make zeros
    odd = finite & (gap > allowed)
    if not odd.any():
        return ""
    place = np.unravel_index(int(np.where(odd, gap / np.maximum(allowed, 1e-300), 0).argmax()), odd.shape)
    return f"is {c[place]:.6g} and not {a[place]:.6g} (ours {b[place]:.6g}) at {int(odd.sum())} of {odd.size}"


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
