"""Named numbers of proofs, generated inputs and numerics: how many there are, and that each has a reason."""

import ast
from pathlib import Path

from tests.engine_sources import tree

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("surgeon/proof", "surgeon/runtime/inputs", "surgeon/runtime/numerics")
MOST = 239
"""Lower it with each change that names fewer numbers: prefer a number that follows from others."""
WITHOUT_A_REASON = 16
"""The same for those that no comment explains."""
# Calls that make numbers of numbers; what others make is no number.
MAKING_NUMBERS = frozenset(("range", "float", "int", "min", "max", "len", "tuple", "frozenset", "sum"))


def is_of_numbers(value: ast.expr) -> bool:
    """Whether a value is a number that is written here, or a collection or an expression of such."""
    found = [node for node in ast.walk(value) if isinstance(node, ast.Constant)]
    calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
    others = [call for call in calls if not (isinstance(call, ast.Name) and call.id in MAKING_NUMBERS)]
    has_functions = any(isinstance(node, ast.Lambda | ast.Subscript) for node in ast.walk(value))
    numbers = [node for node in found if type(node.value) in (int, float, complex)]
    return bool(numbers) and not has_functions and all(ast.unparse(call).startswith("np.") for call in others)


def named_numbers():
    """The names of numbers at module level, and whether a comment or a docstring is on the line, above or below."""
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        lines, body = path.read_text(encoding="utf-8").splitlines(), tree(path).body
        for node, behind in zip(body, [*body[1:], None], strict=True):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [one.id for target in targets if target for one in ast.walk(target) if isinstance(one, ast.Name)]
            if not names or not all(name.isupper() for name in names) or not is_of_numbers(node.value):
                continue
            own = "#" in "".join(lines[node.lineno - 1 : node.end_lineno]) or lines[node.lineno - 2].startswith("#")
            has_docstring = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
            yield from ((f"{path.relative_to(ROOT)}: {name}", own or has_docstring) for name in names)


def test_numbers_are_few():
    """A number that is chosen is one that somebody has to defend."""
    assert len([*named_numbers()]) <= MOST


def test_numbers_have_reasons():
    """So that a reader can tell whether another would do."""
    assert len([name for name, has_reason in named_numbers() if not has_reason]) <= WITHOUT_A_REASON
