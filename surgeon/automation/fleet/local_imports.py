"""Finds the local modules that rule files import: a result depends on them as on the rule files themselves.

They are found by import statements, because `sys.modules` differs between processes and another process must find
the same modules.  An installed module is identified by its version.
"""

import ast
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from surgeon.connected_components import reachable

INSTALLED = ("site-packages", "dist-packages")
_STANDARD = tuple({os.path.realpath(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")})
_OURS = os.path.realpath(Path(__file__).parents[2])
_IMPORTERS = ("import_module", "__import__")


def local_imports(files: Iterable[Path]) -> list[Path]:
    """The local modules that Python files import, directly or through other local modules, in order, without the files.

    A local module is in the folder of the file, or on `sys.path` outside installed packages.  A file that is read by
    other means, or a module whose name is computed, is not found.
    """
    files_given = [Path(os.path.realpath(file)) for file in files]
    found: dict[Path, None] = {}
    for file in files_given:
        roots = [str(file.parent), *(os.path.realpath(place) for place in sys.path)]
        found |= reachable([file], partial(_modules_imported_by, roots=roots))
    return sorted(found.keys() - set(files_given))


def is_local(file: str | os.PathLike[str]) -> bool:
    """Whether a module is neither installed nor part of Python or surgeon."""
    path = os.path.realpath(file)
    if path.endswith(".py") and not any(part in INSTALLED for part in Path(path).parts):
        return not any(path.startswith(f"{home}{os.sep}") for home in (*_STANDARD, _OURS))
    return False


def _modules_imported_by(file: Path, roots: Sequence[str]) -> Iterator[Path]:
    """The local modules that one file imports."""
    for name, places in _imported_names(file, roots):
        parts = name.split(".") if name else []
        for length in range(1, len(parts) + 1):  # a package runs before its modules
            module = _module_file(parts[:length], places, is_absolute=places is roots)
            if module is not None and is_local(module):
                yield Path(os.path.realpath(module))


def _imported_names(file: Path, roots: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Each name that a file imports, with the folders to search."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # running the file reports the error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, roots) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = file.parents[min(node.level, len(file.parents)) - 1] if node.level else None
            places = roots if home is None else [str(home)]
            before = f"{node.module}." if node.module else ""
            yield from ((f"{before}{alias.name}", places) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and _function_name(node.func) in _IMPORTERS:
            (first, *_) = node.args
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, roots


def _function_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _module_file(parts: Sequence[str], places: Sequence[str], *, is_absolute: bool) -> str | None:
    """The file of a module in the first of the folders that has it; None if no folder has it."""
    for place in places:
        below = os.path.join(place, *parts)
        for file in (os.path.join(below, "__init__.py"), f"{below}.py"):
            if os.path.isfile(file):
                return file
    module = sys.modules.get(".".join(parts)) if is_absolute else None
    return getattr(module, "__file__", None)  # an editable install has a finder for it
