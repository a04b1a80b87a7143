"""Replaces a model input with a constant."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper

from surgeon.errors import UsageError
from surgeon.file.tensors.decoding import encode
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.prune import filter_repeated
from surgeon.printed_commands import command
from surgeon.shapes.constraints.input_dims import input_dims

MAX_ELEMENTS = 4096  # most elements of the input
EXACT = ("int", "uint", "bool")  # prefixes of dtypes that hold integers exactly, also of 4 bits


@dataclass(frozen=True, slots=True)
class Hold(Edit):
    """Replace an input with a constant, for example a sampling rate.

    One number fills the whole input; several numbers, separated by commas, are its elements in order.  Branches and
    sizes that depend on the input become known.  Rules then take the branch (`constant_if`), and TensorRT can build a
    model whose sizes and axes must be constant.

    Raises:
        UsageError: the input does not exist, is not numeric or has dynamic sizes, or the value does not fit it.

    Examples:
        >>> import surgeon
        >>> hold = surgeon.edits.Hold("images", "0.5")
        >>> hold.spelling
        'images=0.5'
    """

    name: str
    """The name of the input."""
    value: str
    """A number, `true` or `false`, or several of them, separated by commas: "16000", "0,2,3"."""
    flag = "hold"
    metavar = "INPUT=VALUE"
    feeds: ClassVar[Literal["kept", "inner", "made"]] = "made"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Hold it."""
        stated = draft.input(self.name)
        if any(tensor.name == self.name for tensor in draft.graph.initializer):
            raise UsageError(f"Input {self.name!r} has a default value (an initializer). Choose an input without one.")
        values = self._values(stated)
        source = draft.claim.original(self.name)
        draft.claim.make(source, (), lambda: values)
        draft.claim.by_structure = False
        filter_repeated(draft.graph.input, lambda _, value: value.name != self.name)
        draft.store(encode(values, self.name))
        draft.changed()
        return (f"input {self.name!r} is replaced with the constant {self.value}",)

    def _values(self, stated: onnx.ValueInfoProto) -> np.ndarray:
        """The value in the dtype and shape of the input."""
        kind = stated.type.tensor_type.elem_type
        if not stated.type.HasField("tensor_type") or kind in (TensorProto.UNDEFINED, TensorProto.STRING):
            raise UsageError(f"Input {self.name!r} is not numeric, so it cannot be held at a number.")
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        numbers = self._numbers()
        has_rank = stated.type.tensor_type.HasField("shape")
        shape = input_dims(stated) if has_rank else [len(numbers)]
        free = next((size for size in shape if isinstance(size, str)), None)
        if free is not None and len(shape) == 1:
            shape = [len(numbers)]
        elif free is not None:
            how = command("edit", "IN", "OUT", "--dim", f"{free}=N")
            raise UsageError(f"Input {self.name!r} has the dynamic dimension {free!r}. Fix it first: {how}")
        sizes = [size for size in shape if isinstance(size, int)]
        count = math.prod(sizes)
        if count > MAX_ELEMENTS:
            raise UsageError(f"Input {self.name!r} has {count:,} elements; at most {MAX_ELEMENTS:,} can be held.")
        if len(numbers) not in (1, count):
            wanted = "1 number" if count == 1 else f"1 number or {count:,}"
            raise UsageError(f"Input {self.name!r} needs {wanted}, not {len(numbers):,}.")
        try:
            with np.errstate(all="ignore"):
                made = np.array(numbers).astype(dtype)
        except OverflowError:  # an integer beyond the largest float
            made = None
        name = dtype_name(kind)
        if made is None or not _holds(made, numbers, exactly=name.startswith(EXACT)):
            raise UsageError(f"Input {self.name!r} is {name}, which cannot represent {self.value}.")
        return np.array(np.broadcast_to(made.reshape(-1), (count,)).reshape(sizes))

    def _numbers(self) -> list[float | int | bool]:
        """The numbers in the text of the value."""
        found: list[float | int | bool] = []
        for part in self.value.split(","):
            try:
                number = json.loads(part.strip().lower())
            except ValueError:
                number = None
            if not isinstance(number, (bool, int, float)):
                raise UsageError(f"Invalid value {part.strip()!r} for {self.name!r}. Give a number, for example 16000.")
            found.append(number)
        return found


def _holds(made: np.ndarray, numbers: Sequence[float], *, exactly: bool) -> bool:
    """Whether an array holds these numbers: integers and booleans exactly, floats rounded but finite."""
    if exactly:
        return all(int(one) == other for one, other in zip(made.tolist(), numbers, strict=True))
    return bool(np.isfinite(made.astype(np.float64)).all())
