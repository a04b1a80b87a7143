"""The modules of the engine and of the rules, parsed once for the tests of how they are written."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def paths(*folders: str) -> list[Path]:
    """The files of these folders of the repository, of the engine and the rules by default."""
    return [path for folder in folders or ("surgeon", "patterns") for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(parsed: ast.Module) -> list[ast.AST]:
    """All nodes of a module, walked once for all tests."""
    return list(ast.walk(parsed))


def forget() -> None:
    """Free the trees: they take hundreds of megabytes, and a process of the tests runs other files next."""
    nodes.cache_clear()
    tree.cache_clear()
