"""The process that runs users' Python implementations, as it is inside: `python -m surgeon.running.serving`.

It answers requests on its standard input.  The first brings the functions, as the process that has them pickled them.
No script of the user's is run for that, only a file that was given as one of implementations, and that only where its
functions cannot be pickled.
"""

import inspect
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from surgeon.errors import UsageError
from surgeon.implementations import Implementation, load
from surgeon.parcels import is_own, unpacked
from surgeon.running.pipes import is_numeric, read, write

_PULSE = 1.0  # seconds between two looks at whether the parent lives
# What a plugin's node says to its runtime, and not to the computation.
_ADDRESS = ("plugin_version", "plugin_namespace")

Stamp = tuple[str, int, int]
"""A file with its time (ns) and size (bytes), both 0 for one that is gone."""


def stamps(files: Iterable[str]) -> tuple[Stamp, ...]:
    """Files with their time and size as they are now."""
    found = [(file, os.stat(file) if os.path.exists(file) else None) for file in files]
    return tuple((file, stat.st_mtime_ns if stat else 0, stat.st_size if stat else 0) for file, stat in found)


def main() -> int:
    """Answer requests until the input ends.  What implementations print goes to standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    known: dict[str, Callable[..., Any] | str] = {}
    imported = 0
    while (request := read(requests)) is not None:
        header, arrays = request
        told, results = _received(known, header, arrays) if "load" in header else _answer(known, header, arrays)
        if len(sys.modules) != imported:
            imported, told["files"] = len(sys.modules), stamps(_own_files())
        write(answers, told, results)
    return 0


def _own_files() -> list[str]:
    """The files of the user's own modules that were imported."""
    own = [module for module in list(sys.modules.values()) if getattr(module, "__file__", None) and is_own(module)]
    return [str(module.__file__) for module in own]


def _received(
    known: dict[str, Callable[..., Any] | str], header: Mapping[str, Any], arrays: Sequence[Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Unpack the functions that were sent, or say of each why it cannot be had."""
    sys.path[:] = dict.fromkeys((*header["path"], *sys.path))
    for (name, file), data in zip(header["load"], arrays, strict=True):
        try:
            known[name] = _of_file(name, file) if data is None else unpacked(data.tobytes())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - importing a user's module may raise anything
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            known[name] = f"cannot be unpacked in the process that runs it ({text}): let it import what it needs itself"
    return {}, []


def _of_file(name: str, file: str) -> Callable[..., Any]:
    found = [one.function for one in load(file) if one.name == name]
    if not found:
        raise UsageError(f"'{file}' registers it only when it is run by another")
    return found[0]


def _die_with(parent: int) -> None:
    """End this process when its parent has ended, also in the middle of a call."""
    while os.getppid() == parent:
        time.sleep(_PULSE)
    os._exit(1)


def _answer(
    known: Mapping[str, Callable[..., Any] | str], header: Mapping[str, Any], arrays: list[Any]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Run one implementation; return the header of the answer, and the arrays."""
    function = known[header["op"]]
    if isinstance(function, str):
        return {"problem": function}, []
    inputs, tensors = arrays[: header["inputs"]], arrays[header["inputs"] :]
    settings = {**header["attributes"], **dict(zip(header["tensors"], tensors, strict=True))}
    return _result(function, inputs, settings)


def answered(one: Implementation, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[np.ndarray]:
    """Run an implementation in this process, and return its arrays.  Raises SessionError as `Worker.call` does."""
    told, arrays = _result(one.function, inputs, attributes)
    if "error" in told:
        from surgeon.running.runtime import SessionError  # it loads onnx, which a process that serves has no need of

        raise SessionError(f"The implementation of {one.name}{one.where} {told['error']}.")
    return arrays


def _result(
    function: Callable[..., Any], inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Call a function; return the header of the answer, and the arrays."""
    settings = _wanted(function, attributes)
    try:
        with np.errstate(all="ignore"):
            result = function(*inputs, **settings)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - told to whoever asked
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        lines = [frame.lineno for frame in frames if frame.filename == frames[0].filename]  # theirs, not numpy's
        where = f" at line {lines[-1]}" if lines else ""
        text = " ".join(str(error).split())
        return {"error": f"raised {type(error).__name__}{where} ({text}): correct it"}, []
    results = result if isinstance(result, tuple | list) else (result,)
    for one in results:
        number = isinstance(one, np.ndarray | np.generic)
        if not number or not is_numeric(one.dtype):
            kind = f"an array of {one.dtype.name}" if number else f"a value of type {type(one).__name__}"
            return {"error": f"returned {kind}: let it return a numpy array of numbers, or a tuple of them"}, []
    return {}, [np.asarray(one) for one in results]


def _wanted(function: Callable[..., Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's attributes without those that are a plugin's address, unless the function asks for them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # some functions in C do not tell
        parameters = []
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(attributes)
    asked = {parameter.name for parameter in parameters}
    return {name: value for name, value in attributes.items() if name in asked or name not in _ADDRESS}


if __name__ == "__main__":
    sys.exit(main())
