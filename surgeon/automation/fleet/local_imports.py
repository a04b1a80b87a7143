"""The modules of one's own that rule files import: what results hang on besides the rule files themselves.

They are told by the import statements, as what lies in `sys.modules` is this process's affair: another that asks the
same has to find the same.  What is installed is told by its version.
"""

import ast
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

INSTALLED = ("site-packages", "dist-packages")
_STANDARD = tuple({os.path.realpath(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")})
_OURS = os.path.realpath(Path(__file__).parents[2])
_IMPORTERS = ("import_module", "__import__")


def imported(files: Iterable[Path]) -> list[Path]:
    """The modules of one's own that Python files import, and those that these do, in order; the files left out.

    Such lie in the folder of the file, or on `sys.path` where nothing is installed.  What a file reads otherwise, or
    imports by a name that it computes, is not seen.
    """
    given = [Path(os.path.realpath(file)) for file in files]
    found: dict[Path, None] = {}
    for file in given:
        roots = [str(file.parent), *(os.path.realpath(place) for place in sys.path)]
        waiting, seen = [file], {file}
        while waiting:
            for module in _named_in(waiting.pop(), roots):
                if module not in seen:
                    seen.add(module)
                    found[module] = None
                    waiting.append(module)
    return sorted(found.keys() - set(given))


def is_own(file: str | os.PathLike[str]) -> bool:
    """Whether a module is neither installed, nor Python's or surgeon's own."""
    path = os.path.realpath(file)
    if path.endswith(".py") and not any(part in INSTALLED for part in Path(path).parts):
        return not any(path.startswith(f"{home}{os.sep}") for home in (*_STANDARD, _OURS))
    return False


def _named_in(file: Path, roots: Sequence[str]) -> Iterator[Path]:
    """The modules of one's own that one file imports."""
    for name, places in _names(file, roots):
        parts = name.split(".") if name else []
        for length in range(1, len(parts) + 1):  # a package runs before what lies in it
            module = _at(parts[:length], places, is_absolute=places is roots)
            if module is not None and is_own(module):
                yield Path(os.path.realpath(module))


def _names(file: Path, roots: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Each name that a file imports, and where to look for it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # it cannot be run either, and whoever runs it says so
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, roots) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = file.parents[min(node.level, len(file.parents)) - 1] if node.level else None
            places = roots if home is None else [str(home)]
            before = f"{node.module}." if node.module else ""
            yield from ((f"{before}{alias.name}", places) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and _called(node.func) in _IMPORTERS:
            (first, *_) = node.args
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, roots


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _at(parts: Sequence[str], places: Sequence[str], *, is_absolute: bool) -> str | None:
    """The file of a module below the first of some folders that has one; None for a name that is no module's."""
    for place in places:
        below = os.path.join(place, *parts)
        for file in (os.path.join(below, "__init__.py"), f"{below}.py"):
            if os.path.isfile(file):
                return file
    module = sys.modules.get(".".join(parts)) if is_absolute else None
    return getattr(module, "__file__", None)  # one that an editable install finds in its own way
