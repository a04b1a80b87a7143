"""Python implementations of operators, so that rewrites to operators without a runtime can be proved.

    # plugin_ops.py, given as `--custom-ops plugin_ops.py`
    import numpy as np
    import surgeon

    @surgeon.implements("test.customop::CustomOpOne")
    def custom_op_one(x, y, *, alpha=1.0):
        return x + alpha * y

The function takes the node's inputs as numpy arrays and its attributes by keyword.  It returns one array, or a tuple of
arrays.  An omitted input is None, or is not passed if it is the last, so give it a default.  A proof pickles the
function with the names that it needs and runs it in another process.  The script that defines it does not run again.

Registrations of the user's code (a script, a module, a notebook) apply to all later runs.  Registrations and declared
traits of a file in `custom_ops` apply only to the run with that option.
"""

import importlib.util
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from surgeon.errors import UsageError
from surgeon.ops.plugins.plugin_declaration import own_plugins, replace_own_plugins
from surgeon.ops.schemas.op_schema import history, normalize_domain
from surgeon.ops.traits.declared_traits import declared_traits
from surgeon.ops.traits.trait_lookup import DeclaredTraits, all_declared, declare, replace_declared
from surgeon.runtime.implementations.function_pickling import PickledFunction, pickle_function, search_path
from surgeon.script_imports import importable

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Implementation:
    """A Python implementation of one operator."""

    domain: str
    """Domain of the operator."""
    op: str
    """Name of the operator."""
    function: Callable[..., Any]
    """Takes the inputs, and the attributes by name; returns the outputs."""
    file: Path | None
    """File that defines it; None for a notebook, a prompt or standard input."""
    runs_in_process: bool = False
    """Whether it runs in this process, because it belongs to a library and may need objects of this process."""
    from_custom_ops: bool = False
    """Whether the file is one of `custom_ops`: another process may run it to get the function."""
    traits: DeclaredTraits | None = None
    """Declared traits of the operator; None without any."""

    @property
    def name(self) -> str:
        """The operator as `domain::Op`, or `Op` in the default domain."""
        return f"{self.domain}::{self.op}" if self.domain else self.op

    @property
    def where(self) -> str:
        """Its file, as a phrase after its name; empty if the file is not the user's."""
        return f" in '{self.file}'" if self.file is not None and not self.runs_in_process else ""

    def require(self) -> None:
        """Raise UsageError if this process can neither run it nor send it to another process."""
        if self.runs_in_process and isinstance(self.function, PickledFunction):
            self.function.require()

    def pickled(self) -> bytes | None:
        """The function as bytes for another process; None if that process must run the file.

        Raises UsageError for a function that cannot be pickled.
        """
        try:
            return pickle_function(self.function)
        except UsageError as error:
            if self.from_custom_ops:
                return None
            if isinstance(self.function, PickledFunction):
                raise
            raise UsageError(
                f"The implementation of {self.name}{self.where} cannot be sent to the process that runs it ({error}). "
                "Create such objects inside the function."
            ) from error


_Version = tuple[int, int]

_registered: dict[tuple[str, str], Implementation] = {}
_loaded: dict[Path, tuple[_Version, list[Implementation]]] = {}  # with each file's time and size when it ran
_running: set[Path] = set()  # files that are being loaded


def implements(
    name: str,
    *,
    indices: Sequence[int] | None = None,
    counts: Sequence[int] | None = None,
    random: bool | None = None,
    like: str | None = None,
) -> Callable[[_Function], _Function]:
    """Register the decorated function as the implementation of an operator, and declare traits of the operator.

    The function takes the node's inputs as numpy arrays and its attributes by keyword, and returns one array or a
    tuple of arrays.  A later registration of the same name replaces the earlier one.

    surgeon infers nothing from the operator's name.  Without declared traits, a proof uses arbitrary inputs and allows
    only the rounding error of the dtype.

    Args:
        name: `domain::Op`; `ai.onnx::Op` for a plugin in the default domain.
        indices: positions of the inputs that hold indices.  They index the first axis of the first input that holds
            neither indices nor counts.  For another axis, see `like`.
        counts: positions of the inputs that hold counts, steps or sizes.
        random: whether the operator draws random numbers.
        like: an operator that has the same inputs and attributes with the same meaning, for example "GridSample" or
            "com.microsoft::QuickGelu".  Its traits apply unless the other arguments set them.

    Returns:
        A decorator that returns the function unchanged.

    Raises:
        UsageError: a name that is not `domain::Op` or is an op of ONNX; an input that the function does not
            have; an unknown operator in `like`.

    Examples:
        >>> import surgeon
        >>> @surgeon.implements("acme::Scale", random=False)
        ... def scale(x, factor=1.0):
        ...     return x * factor
        >>> @surgeon.implements("acme::Rows", indices=(1,))
        ... def rows(table, chosen):
        ...     return table[chosen]
    """
    key = _divided(name)

    def register(function: _Function) -> _Function:
        traits = declared_traits(name, function, indices=indices, counts=counts, random=random, like=like)
        _register(Implementation(*key, function, _file_of(function), traits=traits))
        return function

    return register


def _file_of(function: Callable[..., Any]) -> Path | None:
    """The file that defines a function; None without one."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Path(code.co_filename).resolve() if code is not None and Path(code.co_filename).is_file() else None


def register_trusted(name: str, function: Callable[..., Any], traits: DeclaredTraits | None = None) -> Implementation:
    """Register a library's function as the implementation of an operator; it runs in this process.

    The function has the signature that `implements` describes.  Raises UsageError for an invalid name.
    """
    return _register(Implementation(*_divided(name), function, None, runs_in_process=True, traits=traits))


def _register(made: Implementation) -> Implementation:
    _registered[made.domain, made.op] = made
    declare(made.name, made.traits)
    return made


def unregister(name: str) -> None:
    """Forget the implementation of an operator, if there is one.  Raises UsageError for an invalid name."""
    _registered.pop(_divided(name), None)
    declare("::".join(filter(None, _divided(name))), None)


def _divided(name: str) -> tuple[str, str]:
    """The domain and the name of an operator that may have an implementation."""
    domain, colons, op = name.rpartition("::") if isinstance(name, str) else ("", "", "")
    if not colons or not op.isidentifier():
        raise UsageError(f"Invalid operator {name!r}. Give domain and name, for example 'test.customop::CustomOpOne'.")
    if normalize_domain(domain):
        return domain, op
    if history("", op):
        raise UsageError(f"{name!r} is in ONNX's own domain, so it needs no implementation. Remove it.")
    return "", op  # a plugin of TensorRT, which ignores the domain


def available(custom_ops: Sequence[Path | str] = ()) -> Mapping[tuple[str, str], Implementation]:
    """Return the implementations of one run, by domain and name of the operator.

    The Python files among `custom_ops` take precedence over registrations of the user's code, and a later file over an
    earlier one.  Raises UsageError as `load` does.
    """
    found = dict(_registered)
    for path in custom_ops:
        if is_python(path):
            found.update({(one.domain, one.op): one for one in load(path)})
    return found


def is_python(path: Path | str) -> bool:
    """Whether a file of custom operators contains Python implementations and is not a shared library."""
    return Path(path).suffix == ".py"


def require_file(path: Path | str) -> None:
    """Raise UsageError for a Python file that does not exist."""
    if not Path(path).is_file():
        raise UsageError(f"Implementation file not found: {path}")


def load(path: Path | str) -> list[Implementation]:
    """Run a Python file and return the implementations that it registers.

    They are not added to the registrations of the user's code.  A file runs once, and again after an edit.  The script
    that this process runs does not run again.  A file may import modules of its folder.  Raises UsageError for a file
    that does not exist, fails, registers nothing, or starts a run with itself.
    """
    require_file(path)
    file = Path(path).resolve()
    if file == _script():
        return _required([one for one in _registered.values() if one.file == file], path)
    if file in _running:
        raise UsageError(
            f"Implementation file {path} starts a run that loads this file again. Put that run under "
            'if __name__ == "__main__".'
        )
    version = _version(file)
    known = _loaded.get(file)
    if known is None or known[0] != version:
        _running.add(file)
        try:
            known = _loaded[file] = (version, _run(file, path))
        finally:
            _running.remove(file)
    return list(known[1])


@contextmanager
def traits_of_files(custom_ops: Sequence[Path | str]) -> Iterator[None]:
    """Apply the traits that the Python files among `custom_ops` declare, inside a `with`.

    Raises UsageError as `load` does.
    """
    before, own = all_declared(), {one.name: one.traits for path in custom_ops if is_python(path) for one in load(path)}
    for name, traits in own.items():
        declare(name, traits)
    try:
        yield
    finally:
        now = all_declared()
        for name, traits in own.items():
            if now.get(name) is traits:  # else the user's code has declared it in between
                declare(name, before.get(name))


def _version(file: Path) -> _Version:
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size


def _script() -> Path | None:
    """The script that this process runs; None if it is not a file."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).resolve() if file else None


def _required(found: list[Implementation], path: Path | str) -> list[Implementation]:
    """The registrations of a file; raises UsageError if there are none."""
    if not found:
        raise UsageError(f"{path} registers no implementation. Decorate a function with @surgeon.implements(...).")
    return found


def _run(file: Path, path: Path | str) -> list[Implementation]:
    """Run a file as a separate module.  path: as the user gave it."""
    name = f"surgeon_implementations_{file.stem}_{abs(hash(file))}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file. Its name must end in .py.")
    before, declared, modules = dict(_registered), all_declared(), set(sys.modules)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with importable(file.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        del sys.modules[name]
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise UsageError(
            f"Implementation file {path} raised an error: {type(error).__name__}: {error}{line}"
        ) from error
    finally:
        # Set the file here, because a helper module of the file may have registered the function.
        found = [
            replace(one, file=file, from_custom_ops=True)
            for key, one in _registered.items()
            if before.get(key) is not one
        ]
        _registered.clear()
        _registered.update(before)
        replace_declared(declared)
        # A helper module that registers must run again for the next importer: another file, or the user's own code.
        for one in found:
            written_in = getattr(one.function, "__module__", None)
            if written_in and not one.runs_in_process and written_in not in (name, *modules):
                sys.modules.pop(written_in, None)
    return _required(found, path)


def export_registry(custom_ops: Sequence[Path | str] = ()) -> bytes:
    """Return registrations and declared plugins of this process and of `custom_ops`, for `import_registry` in a worker.

    The worker does not have to run these files.  A function that cannot be pickled raises an error only when it is
    called.  Raises UsageError as `load` does.
    """
    given = {Path(path).resolve(): load(path) for path in custom_ops if is_python(path)}
    files = [(file, _version(file), [*map(_sent, found)]) for file, found in given.items()]
    return pickle.dumps((search_path(), [*map(_sent, _registered.values())], files, all_declared(), own_plugins()))


_received: list[bytes] = []  # the last registry that this process received


def import_registry(data: bytes) -> None:
    """Replace the registrations of this process with those of its parent.

    data: from `export_registry`.  Functions are unpickled when they are called.  A file runs only if it was edited
    since, or if its functions cannot be pickled.
    """
    if not data or _received == [data]:
        return
    path, registered, files, traits, plugins = pickle.loads(data)
    sys.path[:] = dict.fromkeys((*path, *sys.path))
    _registered.clear()
    _registered.update(((one.domain, one.op), one) for one in registered)
    _loaded.clear()
    _loaded.update((file, (version, found)) for file, version, found in files)
    replace_declared(traits)
    replace_own_plugins(plugins)
    _received[:] = [data]


def local_only_ops(custom_ops: Sequence[Path | str] = ()) -> frozenset[tuple[str, str]]:
    """The operators, by domain and name, whose implementations run only in the user's process.

    Raises UsageError as `load` does.
    """
    return frozenset(key for key, one in available(custom_ops).items() if one.runs_in_process)


def _sent(one: Implementation) -> Implementation:
    """The implementation for another process: with the function as bytes, or with the reason why there are none."""
    data, refusal = None, f"The implementation of {one.name} cannot be pickled. Run {one.file} to get it."
    if one.runs_in_process:
        refusal = f"The implementation of {one.name} runs only in the process that registered it."
    else:
        try:
            data = one.pickled()
        except UsageError as error:
            refusal = str(error)
    return replace(one, function=PickledFunction(data or b"", refusal if data is None else ""))
