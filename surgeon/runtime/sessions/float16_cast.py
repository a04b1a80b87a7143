"""Casts of weights by ONNX Runtime, which has the processor's own instructions for what numpy computes bit by bit."""

from functools import cache
from threading import Lock

import numpy as np
from onnx import ModelProto, TensorProto, helper

from surgeon.file.tensors.decoding import Array
from surgeon.runtime.function_inlining import IR_VERSION
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError

MIN_ELEMENTS = 1 << 24
"""Elements from which on it pays to load ONNX Runtime."""
_OPSET = 13
_SOURCE, _MADE = "x", "y"


class Float16Caster:
    """Casts arrays of float32 to float16 once there were `MIN_ELEMENTS` elements of them, and not those before.

    Nor where ONNX Runtime does not load, or rounds otherwise than numpy does.
    """

    def __init__(self) -> None:
        self._count = 0
        self._lock = Lock()
        self._session: OrtSession | None = None
        self._was_tried = False

    def __call__(self, array: Array, made: Array) -> bool:
        """Put the same numbers into an array of float16; False where they are not.  Several threads may ask."""
        if array.dtype != np.float32:
            return False
        with self._lock:
            self._count += array.size
            if self._count >= MIN_ELEMENTS and not self._was_tried:
                self._was_tried, self._session = True, _opened()
        if self._session is None or not (array.flags.c_contiguous and made.flags.c_contiguous):
            return False
        self._session.run_into(_SOURCE, array.reshape(-1), _MADE, made.reshape(-1))
        return True


@cache
def float16_caster() -> Float16Caster:
    """The one of this process."""
    return Float16Caster()


def _opened() -> OrtSession | None:
    """What casts, where it does so as numpy does, at the borders between numbers too."""
    node = helper.make_node("Cast", [_SOURCE], [_MADE], to=TensorProto.FLOAT16)
    source = helper.make_tensor_value_info(_SOURCE, TensorProto.FLOAT, ["n"])
    made = helper.make_tensor_value_info(_MADE, TensorProto.FLOAT16, ["n"])
    graph = helper.make_graph([node], "cast", [source], [made])
    opset = helper.make_opsetid("", _OPSET)
    try:
        session = OrtSession(ModelProto(ir_version=IR_VERSION, graph=graph, opset_import=[opset]))
        tried = _borders()
        with np.errstate(over="ignore"):
            wanted = tried.astype(np.float16)
        found = np.empty_like(wanted)
        session.run_into(_SOURCE, tried, _MADE, found)
        return session if np.array_equal(found, wanted, equal_nan=True) else None
    except SessionError:
        return None


def _borders() -> Array:
    """Each number of float16 as float32, what lies halfway to the next, and what lies beside that."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    bits = numbers.view(np.uint32)
    return np.concatenate([numbers, *((bits + step).view(np.float32) for step in (1, 0xFFF, 0x1000, 0x1001))])
