"""Casts of weights by ONNX Runtime, which uses processor instructions, whereas numpy computes bit by bit."""

from functools import cache
from threading import Lock

import numpy as np
from onnx import ModelProto, TensorProto, helper

from surgeon.file.tensors.decoding import Array
from surgeon.runtime.function_inlining import IR_VERSION
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError

MIN_ELEMENTS = 1 << 24
"""Number of elements that makes loading ONNX Runtime worthwhile."""
_OPSET = 13
_SOURCE, _MADE = "x", "y"


class Float16Caster:
    """Casts float32 arrays to float16, but only after calls with `MIN_ELEMENTS` elements in total.

    It does not cast if ONNX Runtime does not load or rounds differently from numpy.
    """

    def __init__(self) -> None:
        self._count = 0
        self._lock = Lock()
        self._session: OrtSession | None = None
        self._was_tried = False

    def __call__(self, array: Array, made: Array) -> bool:
        """Write the numbers into a float16 array; return whether it did.  Thread-safe."""
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
    """The caster of this process."""
    return Float16Caster()


def _opened() -> OrtSession | None:
    """A session that casts; None if it does not load or rounds differently from numpy, for example at midpoints."""
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
    """Each float16 number as float32, the midpoint to the next one, and the neighbours of that midpoint."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    bits = numbers.view(np.uint32)
    return np.concatenate([numbers, *((bits + step).view(np.float32) for step in (1, 0xFFF, 0x1000, 0x1001))])
