"""New tensors that go to a data file of their own, where a model keeps its weights outside of itself.

Only large ones do, so that a rewrite does not leave a user with one more file to ship for a few biases.  Where the
model could not hold the others, all that are larger than LEAST bytes go: onnx's own `convert_model_to_external_data`
moves no smaller ones either, for an entry that names the file takes a hundred bytes too, and shape inference reads
them.  Format: ExternalData.md of the ONNX repository.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from surgeon.file import external
from surgeon.file.copying import write_all

LEAST = 1024  # bytes that a tensor must have to go to a data file at all
LARGE = 1 << 20  # bytes from which on it goes there though the model could hold it
PAGE = 4096  # where a tensor of that size or more begins, so that it can be mapped
WORD = 64  # where a smaller one does


@dataclass
class NewData:
    """A data file that is to be: its location beside the model, and the tensors that go into it.

    least: bytes that a tensor must have to go there.
    """

    location: str
    least: int = LARGE
    size: int = 0
    _parts: list[tuple[int, onnx.TensorProto]] = field(default_factory=list)

    def body(self, tensor: onnx.TensorProto) -> bytes:
        """The record of a tensor, whose data go to the file where they are large."""
        size = len(tensor.raw_data)
        if size < self.least:
            data: bytes = tensor.SerializeToString()
            return data
        step = PAGE if size >= PAGE else WORD
        start = -(-self.size // step) * step
        self._parts.append((start, tensor))
        self.size = start + size
        outside = onnx.TensorProto(
            name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, data_location=external.EXTERNAL
        )
        for key, value in (("location", self.location), ("offset", start), ("length", size)):
            outside.external_data.add(key=key, value=str(value))
        made: bytes = outside.SerializeToString()
        return made

    def write(self, handle: int) -> None:
        """Write the data of all tensors to an empty file."""
        for start, tensor in self._parts:
            os.lseek(handle, start, os.SEEK_SET)
            write_all(handle, tensor.raw_data)


def name_beside(out: Path, tensors: Iterable[onnx.TensorProto]) -> str:
    """A location for the new data of a model at `out` that none of the tensors with external data lies at."""
    taken = {os.path.normpath(external.extent_of(tensor).location) for tensor in tensors}
    stem = os.fsencode(out.name).decode("utf-8", "replace")  # a location is UTF-8, the name of a file may be any bytes
    number, name = 1, f"{stem}.data"
    while os.path.normpath(name) in taken:
        number += 1
        name = f"{stem}.{number}.data"
    return name
