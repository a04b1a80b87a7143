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
    """Make an input a constant: a sampling rate, axes, sizes, a flag that a model is always given alike.

    One number fills the whole input; several, with commas, are its elements in order.  What a branch or a size hangs on
    is known then: rules take the branch (`constant_if`), and TensorRT, which wants to know sizes and axes when it
    builds, builds the model.

    Raises:
        UsageError: there is no such input, it holds no numbers or has free sizes, or the value does not fit it.

    Examples:
        >>> import surgeon
        >>> hold = surgeon.edits.Hold("images", "0.5")
        >>> hold.spelling
        'images=0.5'
    """

    name: str
    """The name of the input."""
    value: str
    """A number, `true` or `false`, or several with commas: "16000", "0,2,3"."""
    flag = "hold"
    metavar = "INPUT=VALUE"
    feeds: ClassVar[Literal["kept", "inner", "made"]] = "made"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Hold it."""
        stated = draft.input(self.name)
        if any(tensor.name == self.name for tensor in draft.graph.initializer):
            raise UsageError(f"The input {self.name!r} has a stored value of its own; hold one that has to be given.")
        values = self._values(stated)
        source = draft.claim.original(self.name)
        draft.claim.make(source, (), lambda: values)
        draft.claim.by_structure = False
        filter_repeated(draft.graph.input, lambda _, value: value.name != self.name)
        draft.store(encode(values, self.name))
        draft.changed()
        return (f"input {self.name!r} is held at {self.value}",)

    def _values(self, stated: onnx.ValueInfoProto) -> np.ndarray:
        """The value in the dtype and shape of the input."""
        kind = stated.type.tensor_type.elem_type
        if not stated.type.HasField("tensor_type") or kind in (TensorProto.UNDEFINED, TensorProto.STRING):
            raise UsageError(f"The input {self.name!r} holds no numbers; hold one that does.")
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        numbers = self._numbers()
        has_rank = stated.type.tensor_type.HasField("shape")
        shape = input_dims(stated) if has_rank else [len(numbers)]
        free = next((size for size in shape if isinstance(size, str)), None)
        if free is not None and len(shape) == 1:
            shape = [len(numbers)]
        elif free is not None:
            how = command("edit", "IN", "OUT", "--dim", f"{free}=N")
            raise UsageError(f"The input {self.name!r} has the free size {free!r}; fix it first: {how}")
        sizes = [size for size in shape if isinstance(size, int)]
        count = math.prod(sizes)
        if count > MAX_ELEMENTS or len(numbers) not in (1, count):
            wanted = "1 number" if count > MAX_ELEMENTS or count == 1 else f"1 number or {count:,}"
            raise UsageError(f"The input {self.name!r} holds {count:,} numbers and takes {wanted} here; give as many.")
        try:
            with np.errstate(all="ignore"):
                made = np.array(numbers).astype(dtype)
        except OverflowError:  # an integer beyond the largest float
            made = None
        name = dtype_name(kind)
        if made is None or not _holds(made, numbers, exactly=name.startswith(EXACT)):
            raise UsageError(f"The input {self.name!r} is {name}, which does not hold {self.value}.")
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
                raise UsageError(f"{part.strip()!r} is no number to hold {self.name!r} at; give one, as in 16000.")
            found.append(number)
        return found


def _holds(made: np.ndarray, numbers: Sequence[float], *, exactly: bool) -> bool:
    """Whether an array holds these numbers: integers and booleans exactly, floats rounded but finite."""
    if exactly:
        return all(int(one) == other for one, other in zip(made.tolist(), numbers, strict=True))
    return bool(np.isfinite(made.astype(np.float64)).all())
