"""Fully masked rows: an attention's output there depends only on how the mask's fill is rounded.

In float32 a fill of -3.4e38 absorbs all scores, and such a row attends to every key alike.  In half precision, or with
another order of additions, scores survive.  Nobody reads the output at a position of padding.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
from onnx import ModelProto

from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.ort_session import SessionError

HIDDEN = "fully masked rows"
"""Name of such rows."""
_NEARLY = 1e-4  # relative change by rounding where another key changes
Feeds = Mapping[str, np.ndarray]


class HiddenRows:
    """Finds rows of a model's outputs that a mask hides.

    original: the model.  skeleton: the model without payloads.  away: runs it.
    """

    def __init__(self, original: pathlib.Path | ModelProto, skeleton: ModelProto, away: IsolatedRuntime) -> None:
        self._original, self._skeleton, self._away = original, skeleton, away
        self._masks: list[str] | None = None

    def without(self, feeds: Feeds, output: np.ndarray, other: np.ndarray) -> Iterator[tuple[np.ndarray, bool, bool]]:
        """The other output with the original's fully masked rows, whether the model must be causal, and if all are."""
        masks = [feeds[name] for name in self.masks_of(feeds)]
        for causal in (False, True) if other.shape == output.shape else ():
            rows = _hidden(masks, output, causal=causal)
            if rows is not None:
                wide = rows.reshape(*rows.shape, *(1 for _ in output.shape[2:]))
                yield np.asarray(np.where(wide, output, other)), causal, bool(rows.all())

    def is_causal(self, feeds: Feeds) -> bool:
        """Whether no row of the original sees a later key than its own, on these inputs."""
        with suppress(SessionError), self._away.open(self._original) as session:
            return _is_causal(session, feeds, self.masks_of(feeds))
        return False

    def masks_of(self, feeds: Feeds) -> list[str]:
        """The inputs that are masks of keys, if the model shows their roles; a scalar has no keys."""
        if self._masks is None:
            self._masks = []
            with suppress(InputsUnknown):
                self._masks = [want.name for want in InputGenerator(self._skeleton).wants if want.kind == "mask"]
        return [name for name in self._masks if name in feeds and feeds[name].ndim > 0]


def _hidden(masks: Sequence[np.ndarray], output: np.ndarray, *, causal: bool) -> np.ndarray | None:
    """The rows [batch, sequence] of an output that see no key; None if there are none.

    masks: of keys, [batch, sequence], zero for a masked key.  causal: whether a row sees no later key.
    """
    for mask in masks:
        if mask.ndim != 2 or output.shape[:2] != mask.shape:
            continue
        shown = mask != 0
        found: np.ndarray = np.cumsum(shown, axis=1) == 0 if causal else ~shown.any(axis=1, keepdims=True) & ~shown
        if found.any():
            return found
    return None


def _is_causal(session: ModelSession, feeds: Feeds, masks: Sequence[str]) -> bool:
    """Whether no row that sees a key changes when the last position of all sequences changes.

    session: the model, open.  masks: the names of its masks of keys.  Raises SessionError.
    """
    shapes = {feeds[name].shape for name in masks if feeds[name].ndim == 2}
    changed = {
        name: np.concatenate([array[:, :-1], (array[:, -1:] == 0).astype(array.dtype)], axis=1)
        for name, array in feeds.items()
        if name not in masks and array.shape[:2] in shapes and array.dtype.kind in "if"
    }
    if not changed:
        return False
    before, after = session.run(feeds), session.run({**feeds, **changed})
    has_rows = False
    for name, array in before.items():
        if array.shape[:2] not in shapes or array.dtype.kind != "f" or after[name].shape != array.shape:
            continue
        rows = _hidden([feeds[mask] for mask in masks], array, causal=True)
        seen = np.ones(array.shape[:2], np.bool_) if rows is None else ~rows
        seen[:, -1] = False
        gap, scale = np.abs(after[name] - array)[seen].max(initial=0.0), np.abs(array[seen]).max(initial=0.0)
        if not gap <= _NEARLY * scale:
            return False
        has_rows = has_rows or bool(seen.any())
    return has_rows
