"""Counts that only go down: `style.csv` has how many places of each package still differ from our style."""

import ast
import csv
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import onnx
import pytest

from tests.engine_sources import ROOT, forget, nodes, paths, tree

TABLE = Path(__file__).with_name("style.csv")
OPERATORS = frozenset(schema.name for schema in onnx.defs.get_all_schemas_with_history()) - {"Constant"}
OF_OPERATORS = ("surgeon/ops/", "surgeon/shapes/op_rules/", "surgeon/runtime/kernels/", "surgeon/targets/", "patterns/")
BUILDERS = {"make_node", "node_of", "node", "make"}  # the operator is their first argument
MAX_ATTRIBUTES, MAX_POSITIONAL = 12, 4
# Words of a private English, and what to write: see `old_words.csv` for those of names.
PROSE = re.compile(
    r"\b(?:tells?|told|untold|hangs? on|hung on|of its own|of their own|of no|is no|are no|somebody|nobody knows|"
    r"whole numbers?|truths|free dim(?:ension)?s?|made up|held against|spares?|spared|twins?|wishes|alone)\b"
)

COMMENT = re.compile(r"(?:^|  )# .*", re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def forget_trees() -> Iterator[None]:
    yield
    forget()


def attributes(node: ast.ClassDef) -> set[str]:
    """The fields of a class, and what its methods set on `self`."""
    fields = {item.target.id for item in node.body if is_field(item)}
    stores = [item for item in ast.walk(node) if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store)]
    return fields | {item.attr for item in stores if isinstance(item.value, ast.Name) and item.value.id == "self"}


def is_field(node: ast.stmt) -> bool:
    """Whether a statement of a class declares a field that others read."""
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.target.id[0] == "_":
        return False
    return "ClassVar" not in ast.unparse(node.annotation)


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class is a dataclass or a NamedTuple."""
    made = [ast.unparse(item) for item in (*node.decorator_list, *node.bases)]
    return any("dataclass" in text or text == "NamedTuple" for text in made)


def fields_without_manual(parsed: ast.Module) -> Iterator[str]:
    """The fields of records without a docstring below them."""
    for node in nodes(parsed):
        if isinstance(node, ast.ClassDef) and is_record(node):
            for item, behind in zip(node.body, [*node.body[1:], None], strict=True):
                has_manual = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
                if is_field(item) and not has_manual:
                    yield f"{node.name}.{item.target.id}"


def large_classes(parsed: ast.Module) -> Iterator[str]:
    """Classes of many attributes; what a pattern captures has a field for each input of its operator."""
    captures = {"Captures", "WhereMask"}
    classes = [node for node in nodes(parsed) if isinstance(node, ast.ClassDef)]
    classes = [node for node in classes if not captures & {ast.unparse(base) for base in node.bases}]
    yield from (node.name for node in classes if len(attributes(node)) > MAX_ATTRIBUTES)


def positional_calls(parsed: ast.Module) -> Iterator[str]:
    """Calls whose positional arguments a reader has to count; the inputs of an operator have an order."""
    for node in nodes(parsed):
        if isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL:
            given = [item for item in node.args if not isinstance(item, ast.Starred)]
            name = ast.unparse(node.func)
            is_in_order = name.startswith("g.") or name in ("command", "print", "zip", "min", "max", "sum")
            if len(given) > MAX_POSITIONAL and not is_in_order:
                yield f"{name}, line {node.lineno}"


def sentences_for_success(parsed: ast.Module) -> Iterator[str]:
    """Functions that return a sentence, or "" where all is well."""
    functions = [node for node in nodes(parsed) if isinstance(node, ast.FunctionDef) and node.returns is not None]
    texts = [node for node in functions if isinstance(node.returns, ast.Name) and node.returns.id == "str"]
    yield from (node.name for node in texts if '""' in (ast.get_docstring(node) or ""))


def operator_names(parsed: ast.Module) -> Iterator[str]:
    """Operators that are named in strings, but for those of nodes that the code builds."""
    calls = [node for node in nodes(parsed) if isinstance(node, ast.Call) and node.args]
    built = {id(call.args[0]) for call in calls if ast.unparse(call.func).rpartition(".")[2] in BUILDERS}
    texts = [node for node in nodes(parsed) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    yield from (node.value for node in texts if node.value in OPERATORS and id(node) not in built)


def prose(text: str, parsed: ast.Module) -> Iterator[str]:
    """The sentences that a module has for its readers: docstrings and comments."""
    for node in nodes(parsed):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    yield from COMMENT.findall(text)


def private_words(text: str, parsed: ast.Module) -> Iterator[str]:
    """Words of a private English in docstrings and comments."""
    for sentence in prose(text, parsed):
        yield from PROSE.findall(sentence)


@cache
def counted() -> Counter[tuple[str, str]]:
    """How many places each package has, by what is counted and the package."""
    found: Counter[tuple[str, str]] = Counter()
    for path in paths():
        name, text, parsed = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"), tree(path)
        first, second, *_ = name.split("/")
        package = "patterns" if first == "patterns" else second.removesuffix(".py")
        found["fields without a docstring", package] += len(list(fields_without_manual(parsed)))
        found["classes of more than 12 attributes", package] += len(list(large_classes(parsed)))
        found["calls with more than 4 positional arguments", package] += len(list(positional_calls(parsed)))
        found["sentences that mean success when empty", package] += len(list(sentences_for_success(parsed)))
        found["private words in docstrings and comments", package] += len(list(private_words(text, parsed)))
        if not name.startswith(OF_OPERATORS):
            found["names of operators", package] += len(list(operator_names(parsed)))
    return found


def limits() -> dict[tuple[str, str], int]:
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return {(row["what"], row["package"]): int(row["most"]) for row in csv.DictReader(stream)}


def test_no_package_goes_back() -> None:
    """Lower a number with each place that is mended; a package that is not listed has none."""
    allowed = limits()
    over = {key: count for key, count in counted().items() if count > allowed.get(key, 0)}
    assert over == {}


@pytest.mark.parametrize(
    ("find", "text", "found"),
    [
        (fields_without_manual, '@dataclass\nclass A:\n    x: int\n    """Rows."""\n    y: int\n    _z: int', ["A.y"]),
        (positional_calls, "f(1, 2, 3, 4, 5)\nf(1, 2, 3, 4, e=5)\nprint(1, 2, 3, 4, 5)", ["f, line 1"]),
        (sentences_for_success, 'def f() -> str:\n    """Why not; "" if all is well."""', ["f"]),
        (operator_names, 'x = "Relu"\ny = "Reluu"\nhelper.make_node("Abs", ["a"], ["b"])', ["Relu"]),
        (large_classes, "class A:\n    def f(self):\n" + "".join(f"        self.x{n} = 1\n" for n in range(13)), ["A"]),
    ],
)
def test_what_is_counted(find, text, found) -> None:
    assert list(find(ast.parse(text))) == found


if __name__ == "__main__":  # writes the table anew
    with TABLE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("what", "package", "most"))
        writer.writerows((*key, count) for key, count in sorted(counted().items()) if count)
