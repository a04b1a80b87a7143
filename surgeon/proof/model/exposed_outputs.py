"""A model whose inner tensors are outputs too: how to expose them, and how many to fetch in one run."""

import itertools
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, ValueInfoProto, helper

from surgeon.connected_components import reachable
from surgeon.errors import ModelFileError
from surgeon.file.io.atomic_file import AtomicFile
from surgeon.file.io.file_copy import copy_span, open_read, write_all
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.protobuf.byte_edits import Piece
from surgeon.ops.traversal import names_read
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.ort_session import SessionError

_GRAPH = ((ModelProto.GRAPH_FIELD_NUMBER, 0),)  # the first and only one
# Each run computes the whole model: few runs, with no more tensors than fit in memory.
_AT_FIRST = 32  # tensors fetched in the first run, which shows how large they are
HELD_BYTES = 1 << 28  # of tensors of a model that are held at once; others are computed again
_GROWTH = 64  # factor between the tensors of one run and of the next, at most
_numbers = itertools.count()  # so that two exposed copies of one file differ in name


def produced_tensors(skeleton: ModelProto) -> list[str]:
    """Return the tensors that nodes of the main graph produce, in the order of the file, which is topological."""
    return list(dict.fromkeys(name for node in skeleton.graph.node for name in node.output if name))


@contextmanager
def exposing(
    model: Path | ModelProto, names: Sequence[str], *, only: bool = False, fed: Collection[str] = ()
) -> Iterator[Path | ModelProto]:
    """Give the model with these tensors of its main graph as further outputs.

    only: as its only outputs, without the nodes and initializers that they do not need.  fed: initializers that become
    inputs with defaults.

    A model in a file is copied; the kernel copies the weights, and shares them if the file system can.  The copy is
    next to the model, so that external data are found.  A model without external data in a read-only folder is copied
    to the folder for temporary files.  It is deleted at the end of the block; a later run deletes leftovers of a
    killed one.  The outputs have no types: ONNX Runtime infers them.  Raises ModelFileError when the model cannot be
    read or the copy not be written.
    """
    if isinstance(model, ModelProto) and not only and not fed:
        known = {value.name for value in model.graph.output}
        copy = ModelProto()
        copy.CopyFrom(model)
        copy.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in known)
        yield copy
        return
    with Model.open(model) as opened:
        patch = _patch(opened, names, only)
        inputs = [
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims).SerializeToString()
            for tensor in opened.skeleton.graph.initializer
            if tensor.name in fed and tensor.name not in {value.name for value in opened.skeleton.graph.input}
        ]
        patch.insert(_GRAPH, GraphProto.INPUT_FIELD_NUMBER, opened.count(_GRAPH, GraphProto.INPUT_FIELD_NUMBER), inputs)
        if isinstance(model, ModelProto):
            yield patch.to_proto()
            return
        with _copy(model, patch.pieces(), movable=not opened.external_tensors) as path:
            yield path


def _patch(model: Model, names: Sequence[str], only: bool) -> Patch:
    """Return the edits that add the outputs and remove what they do not need."""
    patch, graph = Patch(model), model.skeleton.graph
    known = set() if only else {value.name for value in graph.output}
    bodies = [ValueInfoProto(name=name).SerializeToString() for name in names if name not in known]
    patch.insert(_GRAPH, GraphProto.OUTPUT_FIELD_NUMBER, model.count(_GRAPH, GraphProto.OUTPUT_FIELD_NUMBER), bodies)
    if only:
        nodes, used = required_nodes(graph, names)
        used |= {value.name for value in graph.input}  # without its stored value an input would become required
        patch.delete_all(_GRAPH, GraphProto.OUTPUT_FIELD_NUMBER, range(len(graph.output)))
        patch.delete_all(
            _GRAPH, GraphProto.NODE_FIELD_NUMBER, [place for place in range(len(graph.node)) if place not in nodes]
        )
        unused = [place for place, tensor in enumerate(graph.initializer) if tensor.name not in used]
        patch.delete_all(_GRAPH, GraphProto.INITIALIZER_FIELD_NUMBER, unused)
    return patch


def required_nodes(graph: GraphProto, names: Iterable[str], given: Collection[str] = ()) -> tuple[set[int], set[str]]:
    """Return the places of the nodes that compute the tensors, and all names that these use.

    given: tensors whose values are at hand; their producers are not needed.
    """
    outputs = ((place, name) for place, node in enumerate(graph.node) for name in node.output)
    makers = {name: place for place, name in outputs if name and name not in given}
    used = reachable(names, lambda name: names_read(graph.node[makers[name]]) if name in makers else ())
    return {makers[name] for name in used if name in makers}, set(used)


@contextmanager
def _copy(model: Path, pieces: Sequence[Piece], *, movable: bool) -> Iterator[Path]:
    """Write the pieces of a model to a temporary file and give its path."""
    name = f"{model.name}.outputs{next(_numbers)}"
    with ExitStack() as stack:
        for is_beside in (True, False) if movable else (True,):
            try:
                with ExitStack() as attempt:
                    folder = model.parent if is_beside else Path(attempt.enter_context(tempfile.TemporaryDirectory()))
                    file = attempt.enter_context(AtomicFile(folder / name))
                    _write(pieces, model, file.handle)
                    stack.push(attempt.pop_all())
                break
            except OSError as error:
                why = error.strerror or str(error)
        else:
            raise ModelFileError(
                f"Cannot write a temporary copy next to {model} ({why}). Make this folder writable, with free space."
            )
        yield file.temporary


def _write(pieces: Sequence[Piece], source: Path, target: int) -> None:
    handle = open_read(source)
    try:
        for piece in pieces:
            if isinstance(piece, bytes):
                write_all(target, piece)
            elif isinstance(piece, tuple):
                copy_span(handle, piece[0], piece[1] - piece[0], target)
    finally:
        os.close(handle)


def fetch(
    session: ModelSession, feeds: Mapping[str, np.ndarray], names: Sequence[str]
) -> Iterator[tuple[list[str], dict[str, np.ndarray]]]:
    """Run the exposed model on the same inputs until all of these outputs are fetched, some at a time.

    Yields the names of a batch and the values found; a sequence comes as `name[i]`.  A tensor that ONNX Runtime does
    not return is left out.  Raises SessionError when the model does not run at all.
    """
    own = session.outputs
    at, count, runs = 0, _AT_FIRST, False
    try:
        while at < len(names):
            batch = list(names[at : at + count])
            session.outputs = tuple(batch)
            try:
                values = session.run(feeds)
            except SessionError:
                if not runs:
                    session.outputs = own[:1]
                    session.run(feeds)
                    runs = True
                at += len(batch) == 1  # skip a single tensor that is refused
                count = max(len(batch) // 2, 1)
                continue
            runs = True
            at += len(batch)
            yield batch, values
            each = sum(array.nbytes for array in values.values()) // len(batch)
            count = max(min(HELD_BYTES // max(each, 1), len(batch) * _GROWTH), 1)
    finally:
        session.outputs = own
