"""The user's inputs for a model: arrays, .npz files, folders of them, and folders of ONNX test data.

Arrays by name, or an .npz file, are one set, with an array for each input.  A folder may contain .npz files (one set
each), `input_0.pb`, `input_1.pb`, ... (one set), and folders `test_data_set_0`, ... of such files (one set each).
"""

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, ValueInfoProto, numpy_helper

from surgeon.analysis.assumptions.model_assumptions import Assumptions, assumptions_of
from surgeon.errors import UsageError
from surgeon.shapes.constraints.input_dims import input_dims, required_inputs

_NPY = b"\x93NUMPY"  # first bytes of a file from numpy.save
_PB = re.compile(r"input_(\d+)\.pb")


@dataclass(frozen=True, slots=True)
class InputSet:
    """One set of inputs for a model."""

    source: str
    """File or folder that it comes from."""
    arrays: dict[str, np.ndarray]
    """Arrays by input name, in the dtypes of the graph inputs."""

    def __str__(self) -> str:
        return self.source


def read_inputs(skeleton: ModelProto, given: Sequence[Path | str | Mapping[str, Any]]) -> list[InputSet]:
    """Read all sets of inputs from arrays and paths, and check each against the graph's inputs.

    An input with an initializer may be omitted.  Raises UsageError for a path without inputs, for an array that is
    missing, unknown or of a wrong dtype or shape, and for an array that violates an assumption of the model.
    """
    entries = {entry.name: entry for entry in skeleton.graph.input}
    wanted, assumed = list(required_inputs(skeleton.graph)), assumptions_of(skeleton) if given else {}
    found: list[InputSet] = []
    for place, item in enumerate(given):
        sets: Iterator[tuple[str, dict[str, np.ndarray]]]
        if isinstance(item, Mapping):
            sets = iter([(f"inputs[{place}]", {name: np.asarray(array) for name, array in item.items()})])
        else:
            sets = ((str(path), arrays) for path, arrays in _sets(Path(item), wanted))
        for source, arrays in sets:
            _require_names(source, arrays, entries, wanted)
            found.append(InputSet(source, {name: _fitted(source, arrays[name], entries[name]) for name in arrays}))
            _require_assumed(found[-1], assumed)
    return found


def _sets(path: Path, wanted: Sequence[str]) -> Iterator[tuple[Path, dict[str, np.ndarray]]]:
    """Yield the sets at a path; those of a folder in natural order of names."""
    if not path.exists():
        raise UsageError(f"No inputs found at {path}. Give an .npz file or a folder of .npz files.")
    if not path.is_dir():
        yield path, _read_npz(path)
        return
    files = sorted((file for file in path.iterdir() if file.suffix == ".npz"), key=_natural)
    folders = [path, *sorted((folder for folder in path.glob("test_data_set_*") if folder.is_dir()), key=_natural)]
    data = [(folder, parts) for folder in folders if (parts := _parts(folder))]
    if not files and not data:
        raise UsageError(f"Folder {path} contains neither .npz files nor ONNX test data (input_0.pb).")
    for file in files:
        yield file, _read_npz(file)
    for folder, parts in data:
        yield folder, _read_test_data(folder, parts, wanted)


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", path.name)]


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file:
            head = file.read(len(_NPY))
        if head != _NPY and not zipfile.is_zipfile(path):
            raise UsageError(f"{path} is not an .npz file. Save the arrays with numpy.savez.")
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise UsageError(f"{path} contains a single array without a name. Save it with numpy.savez.")
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        why = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise UsageError(f"{path} cannot be read as .npz ({why}). Save the arrays with numpy.savez.") from error


def _parts(folder: Path) -> dict[int, Path]:
    """Return the files of one set of ONNX test data by the index of their input."""
    parts = {int(match[1]): file for file in folder.iterdir() if (match := _PB.fullmatch(file.name))}
    return dict(sorted(parts.items()))


def _read_test_data(folder: Path, parts: Mapping[int, Path], wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """Read one set of ONNX test data; if the names do not fit, tensors are the model's inputs in order."""
    tensors: dict[int, TensorProto] = {}
    for place, file in parts.items():
        try:
            tensors[place] = TensorProto.FromString(file.read_bytes())
            numpy_helper.to_array(tensors[place])
        except (OSError, DecodeError, ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{file} cannot be read as a tensor. Write it with onnx.save_tensor.") from error
    named = all(tensor.name in wanted for tensor in tensors.values())
    arrays: dict[str, np.ndarray] = {}
    for place, tensor in tensors.items():
        if not named and place >= len(wanted):
            raise UsageError(f"{parts[place]} is for an input that the model does not have. {_listed(wanted)}.")
        arrays[tensor.name if named else wanted[place]] = numpy_helper.to_array(tensor)
    return arrays


def _require_names(
    source: str, arrays: Mapping[str, object], entries: Mapping[str, ValueInfoProto], wanted: Sequence[str]
) -> None:
    """Raise UsageError for a missing array, or for one without an input."""
    for name in arrays:
        if name not in entries:
            raise UsageError(f"Array '{name}' in {source} is not an input of the model. {_listed(wanted)}.")
    for name in wanted:
        if name not in arrays:
            raise UsageError(f"{source} has no array for input '{name}'. {_listed(wanted)}.")


def _require_assumed(given: InputSet, assumed: Assumptions) -> None:
    """Raise UsageError for an array that violates an assumption."""
    for name, assumption in assumed.items():
        place = assumption.violation(given.arrays[name])
        if place is not None:
            at = f"{name}[{', '.join(map(str, place))}]" if place else name
            raise UsageError(
                f"Input '{name}' in {given} violates the assumption '{name}: {assumption}', because {at} is "
                f"{given.arrays[name][place]}. Give other inputs, or remove the assumption."
            )


def _listed(wanted: Sequence[str]) -> str:
    if not wanted:
        return "The model has no inputs"
    return f"Input{'s' if len(wanted) > 1 else ''} of the model: " + ", ".join(f"'{name}'" for name in wanted)


def _fitted(source: str, array: np.ndarray, entry: ValueInfoProto) -> np.ndarray:
    """Return the array in ONNX Runtime's form; raises UsageError for a wrong dtype or shape."""
    name = entry.name
    if entry.type.WhichOneof("value") != "tensor_type":
        raise UsageError(f"Input '{name}' is not a tensor, so {source} cannot provide it. Leave out the inputs.")
    wanted = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type))
    if array.dtype.kind in "US" and wanted.kind in "OUS":
        array, wanted = array.astype(str).astype(object), np.dtype(object)
    elif array.dtype.kind == "V" and wanted.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        array = array.view(wanted)  # numpy writes the types of ml_dtypes, bfloat16 and the like, as plain bytes
    if array.dtype.newbyteorder("=") != wanted:
        raise UsageError(
            f"Input '{name}' is {array.dtype.name} in {source}, but the model expects {wanted.name}. Convert the array."
        )
    if entry.type.tensor_type.HasField("shape"):
        dims = input_dims(entry)
        fits = len(dims) == array.ndim and all(
            isinstance(dim, str) or dim == size for dim, size in zip(dims, array.shape, strict=True)
        )
        if not fits:
            expected = ", ".join(str(dim) if isinstance(dim, int) or "[" not in dim else "?" for dim in dims)
            raise UsageError(
                f"Input '{name}' has shape {list(array.shape)} in {source}, but the model expects [{expected}]."
            )
    return np.ascontiguousarray(array.astype(wanted, copy=False)).reshape(array.shape)
