"""Operators that users implement in Python, so that a rewrite to them can be proved where no runtime has them.

    # plugin_ops.py, given as `--custom-ops plugin_ops.py`
    import numpy as np
    import surgeon

    @surgeon.implements("test.customop::CustomOpOne")
    def custom_op_one(x, y, *, alpha=1.0):
        return x + alpha * y

The function takes the node's inputs as numpy arrays, its attributes by keyword, and returns one array, or a tuple of
them.  An input that the node leaves out is None, or not passed at all if it is the last: give it a default.  A proof
runs the function in a process of its own.

What a user's own code registers, in a module or at a prompt, counts from then on.  What a file registers that is given
as `custom_ops` counts for the run that names it, and for no other.
"""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from surgeon.errors import UsageError

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Implementation:
    """One operator's implementation: the function, and the file that registers it when it is run.

    `file` is None where the function was written in a notebook or at a prompt.  `is_trusted` functions are a library's
    own, and run in this process: nobody is still writing them, and no file of the user's holds them.
    """

    domain: str
    op: str
    function: Callable[..., Any]
    file: Path | None
    is_trusted: bool = False

    @property
    def name(self) -> str:
        """The operator as `domain::Op`."""
        return f"{self.domain}::{self.op}"

    @property
    def where(self) -> str:
        """Where a person finds it, as a phrase behind its name; empty for what is no user's."""
        return f" in '{self.file}'" if not self.is_trusted else ""


_registered: dict[tuple[str, str], Implementation] = {}
_loaded: dict[Path, tuple[tuple[int, int], list[Implementation]]] = {}  # with each file's time and size as it was run


def implements(name: str) -> Callable[[_Function], _Function]:
    """Register the decorated function as the implementation of an operator, named `domain::Op`.

    A later registration of the same name replaces the earlier.  Raises UsageError for a name of another form.
    """
    domain, op = _divided(name)

    def register(function: _Function) -> _Function:
        source = inspect.getsourcefile(inspect.unwrap(function))
        file = Path(source).resolve() if source and Path(source).is_file() else None
        _registered[domain, op] = Implementation(domain, op, function, file)
        return function

    return register


def provide(name: str, function: Callable[..., Any]) -> Implementation:
    """Register a library's own function as the implementation of an operator; it runs in this process.

    Called as `implements` says.  Raises UsageError for a name of another form.
    """
    domain, op = _divided(name)
    made = _registered[domain, op] = Implementation(domain, op, function, None, is_trusted=True)
    return made


def withdraw(name: str) -> None:
    """Forget the implementation of an operator, if there is one.  Raises UsageError for a name of another form."""
    _registered.pop(_divided(name), None)


def _divided(name: str) -> tuple[str, str]:
    """The domain and the name of an operator that may have an implementation."""
    domain, colons, op = name.rpartition("::")
    if not colons or not op.isidentifier():
        raise UsageError(f"{name!r} names no operator; write its domain and name, as in 'test.customop::CustomOpOne'.")
    if domain in ("", "ai.onnx"):
        raise UsageError(f"{name!r} is in ONNX's own domain, whose operators need no implementation; leave it out.")
    return domain, op


def available(custom_ops: Sequence[Path | str] = ()) -> Mapping[tuple[str, str], Implementation]:
    """Return the implementations of one run, by domain and name of the operator.

    Those are what the user's own code has registered, and before these what the Python files among `custom_ops`
    register, a later file before an earlier one.  Raises UsageError as `load` does.
    """
    found = dict(_registered)
    for path in custom_ops:
        if is_python(path):
            found.update({(one.domain, one.op): one for one in load(path)})
    return found


def staying(custom_ops: Sequence[Path | str] = ()) -> frozenset[tuple[str, str]]:
    """The operators, by domain and name, whose implementations the user's own process has and no other.

    Raises UsageError as `load` does.
    """
    return frozenset(key for key, one in available(custom_ops).items() if _registered.get(key) is one)


def is_python(path: Path | str) -> bool:
    """Whether a file given for custom operators is one of implementations, and no shared library."""
    return Path(path).suffix == ".py"


def require_file(path: Path | str) -> None:
    """Raise UsageError for a Python file that is not there."""
    if not Path(path).is_file():
        raise UsageError(f"There is no file '{path}' of implementations: check the path.")


def load(path: Path | str) -> list[Implementation]:
    """Run a Python file and return the implementations that it registers.

    They are for whoever asked, and do not join what the user's own code has registered.  A file is run once, and anew
    when it was edited.  It may import its neighbours.  Raises UsageError for a file that is not there, fails, or
    registers nothing.
    """
    require_file(path)
    file = Path(path).resolve()
    version = (file.stat().st_mtime_ns, file.stat().st_size)
    known = _loaded.get(file)
    if known is None or known[0] != version:
        known = _loaded[file] = (version, _run(file, path))
    return list(known[1])


def _run(file: Path, path: Path | str) -> list[Implementation]:
    """Run a file that was given as `path`, as a module of its own."""
    name = f"surgeon_implementations_{file.stem}_{abs(hash(file))}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"'{path}' is no Python file: give one whose name ends in .py.")
    before, modules = dict(_registered), set(sys.modules)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        del sys.modules[name]
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise UsageError(
            f"The file '{path}' of implementations cannot be run ({type(error).__name__}: {error}{line}): correct it."
        ) from error
    finally:
        sys.path.remove(str(file.parent))
        # That the file is named here: a helper of it elsewhere may have registered the function.
        found = [replace(one, file=file) for key, one in _registered.items() if before.get(key) is not one]
        _registered.clear()
        _registered.update(before)
        # A neighbour that registers has to run again for the next file, or for the user's own code, that imports it.
        for one in found:
            if not one.is_trusted and one.function.__module__ not in (name, *modules):
                sys.modules.pop(one.function.__module__, None)
    if not found:
        raise UsageError(f"The file '{path}' registers nothing: decorate a function with @surgeon.implements(...).")
    return found
