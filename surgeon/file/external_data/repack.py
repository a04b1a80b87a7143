"""Repacks data files of which an edited model uses only a part."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnx

from surgeon.errors import ModelFileError
from surgeon.file.external_data import locations
from surgeon.file.external_data.new_file import NewDataFile, name_beside
from surgeon.file.model import Model
from surgeon.file.protobuf.byte_edits import FileSpan
from surgeon.file.protobuf.payloads import PAYLOAD_KEY
from surgeon.file.tensors.casting import CHANGE, DataChange
from surgeon.file.tensors.decoding import Array, raw_size

Extents = dict[str, set[locations.Extent]]


def repack_unused(model: Model, edited: onnx.ModelProto, out: Path) -> tuple[onnx.ModelProto, NewDataFile | None]:
    """The skeleton with tensors in a new data file next to `out`, if a data file is used less than before.

    model: the source of the skeleton.  If everything is still used, or the model stays in its folder, the skeleton is
    returned unchanged, without a file.  Raises ModelFileError if data are missing or do not match their checksum.
    """
    if model.path is None or not model.external_tensors or not out.parent.is_dir():
        return edited, None
    if os.path.samefile(model.path.parent, out.parent):
        return edited, None
    before, after = _extents(model.external_tensors), _extents(_as_they_are(edited))
    partial = {location for location, extents in after.items() if extents < before.get(location, set())}
    if not partial:
        return edited, None
    found = onnx.ModelProto()
    found.CopyFrom(edited)
    fresh = NewDataFile(name_beside(out, model.external_tensors))
    for tensor in _as_they_are(found):
        extent = locations.extent_of(tensor)
        if extent.location in partial:
            path = locations.resolve(model.path.parent, extent.location)
            locations.check_extent(path, extent, tensor.name)
            locations.verify_checksum(path, extent, tensor.name)
            del tensor.external_data[:]
            size = raw_size(tensor)
            fresh.refer(tensor, fresh.take(FileSpan(path, extent.offset, size)), size)
    return found, fresh


def repack_converted(
    model: Model,
    edited: onnx.ModelProto,
    recast_of: Callable[[onnx.TensorProto], DataChange | None],
    out: Path | None,
    fresh: NewDataFile | None,
) -> tuple[onnx.ModelProto, NewDataFile | None]:
    """The skeleton with external tensors that are converted to another dtype in a new data file next to `out`.

    fresh: an existing new data file.  Raises ModelFileError as `repack_unused`, and if the model has no path.
    """
    changing = [tensor for tensor in _outside(edited) if recast_of(tensor) is not None]
    if not changing:
        return edited, fresh
    if model.held:
        return _with_converted(model, edited, recast_of), fresh
    if model.path is None or out is None:
        raise ModelFileError("The model came from memory, so its data files are unknown. Open it by its path.")
    found = onnx.ModelProto()
    found.CopyFrom(edited)
    data = fresh or NewDataFile(name_beside(out, model.external_tensors))
    for tensor in _outside(found):
        change = recast_of(tensor)
        if change is None:
            continue
        extent = locations.extent_of(change.stored(tensor))
        path = locations.resolve(model.path.parent, extent.location)
        locations.check_extent(path, extent, tensor.name)
        locations.verify_checksum(path, extent, tensor.name)
        del tensor.external_data[:]
        size = raw_size(tensor)
        data.refer(tensor, data.take(FileSpan(path, extent.offset, size, change)), size)
    return found, data


def _with_converted(
    model: Model, edited: onnx.ModelProto, recast_of: Callable[[onnx.TensorProto], DataChange | None]
) -> onnx.ModelProto:
    """The skeleton with held tensors that are converted as new held tensors, each converted once."""
    found = onnx.ModelProto()
    found.CopyFrom(edited)
    for tensor in _outside(found):
        change = recast_of(tensor)
        if change is not None:
            location = locations.extent_of(change.stored(tensor)).location
            array = partial(_converted, model, change.stored(tensor), change)
            del tensor.external_data[:]
            held = model.held[location]
            held.refer(tensor, change, array, location=location)
            held.value(tensor, locations.extent_of(tensor).offset)  # which fills `change.seen`
    return found


def _converted(model: Model, stored: onnx.TensorProto, change: DataChange) -> Array:
    """The converted value of a tensor."""
    return change.array(model.value(stored))


def _outside(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """The tensors of a skeleton in data files, without those that have inline data too."""
    return [
        tensor
        for tensor in locations.tensors_of(model)
        if tensor.data_location == locations.EXTERNAL
        and all(entry.key != PAYLOAD_KEY for entry in tensor.external_data)
    ]


def _as_they_are(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Those of them whose data are not converted, so that the data file is still needed."""
    return [tensor for tensor in _outside(model) if all(entry.key != CHANGE for entry in tensor.external_data)]


def _extents(tensors: list[onnx.TensorProto]) -> Extents:
    """The extents of tensors, by location."""
    found: Extents = {}
    for tensor in tensors:
        extent = locations.extent_of(tensor)
        found.setdefault(extent.location, set()).add(extent)
    return found
