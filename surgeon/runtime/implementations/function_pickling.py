"""Pickle functions for another process, with the names that they need, so that no script runs again.

The user's code is pickled by value: from scripts, standard input, notebooks and modules.  The other process imports
installed libraries, and modules that only they import, by name.
"""

import functools
import io
import os
import pickle
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from surgeon.errors import UsageError
from surgeon.script_imports import IMPORTED_FOLDERS

_lock = threading.Lock()  # cloudpickle has a global list of modules to pickle by value
_CACHED = type(functools.cache(len))


class PickledFunction:
    """A function that came from another process.  The first call unpickles it.

    refusal: why it could not be pickled, one sentence.
    """

    def __init__(self, data: bytes, refusal: str = "") -> None:
        self.data, self.refusal = data, refusal
        self._function: Callable[..., Any] | None = None

    def __call__(self, *inputs: Any, **settings: Any) -> Any:
        if self._function is None:
            self.require()
            self._function = unpickle_function(self.data)
        return self._function(*inputs, **settings)

    def require(self) -> None:
        """Raise UsageError if the function could not be pickled."""
        if self.refusal:
            raise UsageError(self.refusal)


def pickle_function(function: Callable[..., Any]) -> bytes:
    """Return a function as bytes, for `unpickle_function` in another process of this Python.

    Raises UsageError if an object cannot be pickled.
    """
    if isinstance(function, PickledFunction):
        function.require()
        return function.data
    buffer = io.BytesIO()
    try:
        with _lock, _by_value(_module_of(function)) as names:
            _pickler(buffer, names).dump(function)
    except Exception as error:  # a user's object may raise anything
        raise UsageError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error
    return buffer.getvalue()


def unpickle_function(data: bytes) -> Callable[..., Any]:
    """Return the function from the bytes of `pickle_function`.  Errors of importing its modules propagate."""
    function: Callable[..., Any] = pickle.loads(data)
    return function


def search_path() -> list[str]:
    """The module search path of this process as absolute paths, with the folders of files that it ran."""
    return list(dict.fromkeys(os.path.abspath(entry) for entry in (*sys.path, *IMPORTED_FOLDERS)))


def is_user_module(module: ModuleType) -> bool:
    """Whether a module is the user's own: not Python's, not installed and not surgeon's."""
    file = getattr(module, "__file__", None)
    if file is None:
        return getattr(module, "__spec__", None) is None  # created by hand: it cannot be imported by name
    return not any(Path(file).is_relative_to(folder) for folder in _libraries())


@functools.cache
def _libraries() -> tuple[str, ...]:
    installed = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return (*dict.fromkeys(installed), str(Path(__file__).resolve().parents[2]))


def _module_of(function: Callable[..., Any]) -> ModuleType | None:
    """The module that defines a function; None if it no longer exists."""
    while isinstance(function, functools.partial):
        function = function.func
    return sys.modules.get(getattr(function, "__module__", None) or "")


@contextmanager
def _by_value(module: ModuleType | None) -> Iterator[frozenset[str]]:
    """Pickle the user's modules by value inside a `with`; yields their names."""
    import cloudpickle  # not at the top: most runs have no implementation to send

    known = frozenset(("__main__", *cloudpickle.list_registry_pickle_by_value()))
    if module is None or module.__name__ in known or not is_user_module(module):
        yield known
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield known | {module.__name__}
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _pickler(buffer: io.BytesIO, names: frozenset[str]) -> pickle.Pickler:
    """cloudpickle's pickler, extended for functions with functools.cache that have no importable name."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, _CACHED) and obj.__module__ in names:
                return _cached, (obj.__wrapped__, obj.cache_parameters())
            return super().reducer_override(obj)

    pickler: pickle.Pickler = Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL)
    return pickler


def _cached(function: Callable[..., Any], settings: dict[str, Any]) -> Callable[..., Any]:
    cached: Callable[..., Any] = functools.lru_cache(**settings)(function)
    return cached
