"""Tasks of a worker for Python implementations: receive functions, and call them.

The functions arrive pickled.  No script of the user runs.  An implementation file runs only if its functions cannot be
pickled.
"""

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surgeon.errors import UsageError
from surgeon.runtime.implementations.function_pickling import is_user_module, unpickle_function
from surgeon.runtime.implementations.implementation import Implementation, load
from surgeon.runtime.processes.pipe_protocol import is_sendable_dtype
from surgeon.runtime.processes.worker_main import ReportProgress

# Attributes that identify a plugin and do not affect the computation.
_ADDRESS = ("plugin_version", "plugin_namespace")


@dataclass(frozen=True, slots=True)
class FunctionSet:
    """Functions that a worker serves."""

    functions: tuple[tuple[str, bytes | None, str], ...]
    """Operator, pickled function and file; None instead of the function if the file must run."""
    path: tuple[str, ...]
    """`sys.path` of the functions."""
    folder: str
    """Working directory of the functions."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """One call of a function of a `FunctionSet`."""

    op: str
    """Operator, "acme::Gelu"."""
    inputs: Sequence[Any]
    """Arrays; None for an omitted input."""
    attributes: Mapping[str, Any]
    """Attributes by name."""


_known: dict[str, Callable[..., Any] | str] = {}  # a function, or why it is not available
_files: dict[str, tuple[int, int] | None] = {}  # imported modules of the user, with the state of their files then


def serve(served: FunctionSet, _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Receive functions, unless they are already here; `stale`: whether one of their files was edited since."""
    if _known:
        return {"stale": any(_state(file) != then for file, then in _files.items())}, []
    sys.path[:] = dict.fromkeys((*served.path, *sys.path))
    for name, data, file in served.functions:
        try:
            _known[name] = _of_file(name, file) if data is None else unpickle_function(data)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - importing a user's module may raise anything
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            problem = f"cannot be unpickled in the process that runs it ({text}). Import modules inside the function"
            _known[name] = problem
    _note_files()
    return {"stale": False}, []


def call(asked: CallRequest, _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Call one of the functions."""
    function, count = _known[asked.op], len(sys.modules)
    if isinstance(function, str):
        return {"problem": function}, []
    try:
        return _result(function, asked.inputs, asked.attributes)
    finally:
        if len(sys.modules) != count:
            _note_files()


def _note_files() -> None:
    """Record the state of the files of the user's modules that were imported."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and file not in _files and is_user_module(module):
            _files[file] = _state(file)


def _state(file: str) -> tuple[int, int] | None:
    """Time (ns) and size (bytes) of a file; None if it no longer exists."""
    if not os.path.exists(file):
        return None
    found = os.stat(file)
    return found.st_mtime_ns, found.st_size


def _of_file(name: str, file: str) -> Callable[..., Any]:
    found = [one.function for one in load(file) if one.name == name]
    if not found:
        raise UsageError(f"{file} does not register it when surgeon loads the file")
    return found[0]


def answered(one: Implementation, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[np.ndarray]:
    """Run an implementation in this process and return its arrays.  Raises SessionError as a worker does."""
    header, arrays = _result(one.function, inputs, attributes)
    if "error" in header:
        # Not at the top: it loads onnx, which a worker does not need.
        from surgeon.runtime.sessions.ort_session import SessionError

        raise SessionError(f"The implementation of {one.name}{one.where} {header['error']}.")
    return arrays


def _result(
    function: Callable[..., Any], inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Call a function; return the header of the result, and its arrays."""
    settings = _wanted(function, attributes)
    try:
        with np.errstate(all="ignore"):
            result = function(*inputs, **settings)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - reported to the caller
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        lines = [frame.lineno for frame in frames if frame.filename == frames[0].filename]  # not numpy's
        where = f" at line {lines[-1]}" if lines else ""
        text = " ".join(str(error).split())
        return {"error": f"raised {type(error).__name__}{where} ({text})"}, []
    results = result if isinstance(result, tuple | list) else (result,)
    for one in results:
        number = isinstance(one, np.ndarray | np.generic)
        if not number or not is_sendable_dtype(one.dtype):
            kind = f"an array of {one.dtype.name}" if number else f"a value of type {type(one).__name__}"
            return {"error": f"returned {kind}. It must return a numpy array of numbers, or a tuple of them"}, []
    return {}, [np.asarray(one) for one in results]


def _wanted(function: Callable[..., Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A node's attributes without those that identify a plugin, unless the function has parameters for them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # some C functions have no signature
        parameters = []
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(attributes)
    asked = {parameter.name for parameter in parameters}
    return {name: value for name, value in attributes.items() if name in asked or name not in _ADDRESS}
