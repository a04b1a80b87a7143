"""The terms of the field in names: `old_words.csv` has the words that they replace, and how many names use them."""

import ast
import csv
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.engine_sources import paths

TABLE = Path(__file__).with_name("old_words.csv")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def names(tree: ast.AST) -> Iterator[str]:
    """The names that a module gives: of classes, functions, parameters, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def counted() -> Counter[str]:
    """How many different names each module gives with each word, summed over the engine and the rules."""
    found: Counter[str] = Counter()
    for path in paths():
        for name in {*names(ast.parse(path.read_text(encoding="utf-8"))), path.stem, path.parent.name}:
            found.update({part.lower() for part in PART.findall(name)})
    return found


def test_old_words_do_not_come_back() -> None:
    """The column `left` only goes down: lower it with the names that take the new word."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    found = counted()
    assert {row["old"]: found[row["old"]] for row in table if found[row["old"]] > int(row["left"])} == {}
    assert all(row["new"] for row in table)
