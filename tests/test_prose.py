"""Plain English: `prose.toml` has habits that make sentences hard, `prose.csv` how many of them each text still has.

The counts only fall.  `python -m tests.test_prose` writes the table; with the names of files it lists their findings.
"""

import ast
import csv
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.engine_sources import ROOT, forget, nodes, paths, tree

TABLE = Path(__file__).with_name("prose.csv")
RULES = tomllib.loads(Path(__file__).with_name("prose.toml").read_text(encoding="utf-8"))["habit"]
HABITS = [(re.compile(rule["pattern"], re.MULTILINE), rule["write"]) for rule in RULES]
LONG = 200  # characters of a sentence: about 35 words, which nobody reads aloud in one breath
MESSAGE = 4  # words from which a string is a sentence and not a key
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "notebooks" / "README.md"]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SENTENCE = re.compile(r"(?<=[.!?:;])\s+")


@pytest.fixture(scope="module", autouse=True)
def forget_trees() -> Iterator[None]:
    yield
    forget()


def findings(text: str) -> Iterator[tuple[str, str]]:
    """The sentences of a paragraph that have a habit, each with the advice."""
    for habit, advice in HABITS:
        for found in habit.finditer(text):
            yield text[max(0, found.start() - 30) : found.end() + 30].replace("\n", " "), advice
    for sentence in SENTENCE.split(text):
        if len(sentence) > LONG:
            yield sentence[:60], "two sentences"


def paragraphs(markdown: str) -> Iterator[str]:
    """The prose of a page: no code, no addresses of links."""
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type == "inline":
            parts = token.children or []
            kinds = {"text": lambda part: part.content, "softbreak": lambda _: " ", "code_inline": lambda _: "`code`"}
            yield "".join(kinds[part.type](part) for part in parts if part.type in kinds)


def docstrings(parsed: ast.Module) -> Iterator[str]:
    """The docstrings of a module, its fields' too, a paragraph each; examples are code."""
    for node in nodes(parsed):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from (text for text in re.split(r"\n\s*\n", node.value.value) if ">>>" not in text)


def messages(parsed: ast.Module) -> Iterator[str]:
    """The strings of a module that are sentences; a placeholder is one word."""
    manuals = {id(node.value) for node in nodes(parsed) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in nodes(parsed) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes(parsed):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (manuals | inner):
            text = node.value
        else:
            continue
        if len(text.split()) >= MESSAGE:
            yield text


def all_texts() -> Iterator[tuple[str, str, Iterable[str]]]:
    """Each text: what it is, its file or package, and its paragraphs."""
    for path in PAGES:
        yield "page", path.relative_to(ROOT).as_posix(), paragraphs(path.read_text(encoding="utf-8"))
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        yield "notebook", path.stem, chain.from_iterable(map(paragraphs, texts))
    for path in paths():
        first, second, *_ = path.relative_to(ROOT).as_posix().split("/")
        package = "patterns" if first == "patterns" else second.removesuffix(".py")
        yield "docstring", package, docstrings(tree(path))
        yield "message", package, messages(tree(path))


@cache
def counted() -> Counter[tuple[str, str]]:
    """How many findings each text has."""
    found: Counter[tuple[str, str]] = Counter()
    for kind, name, texts in all_texts():
        found[kind, name] += sum(1 for text in texts for _ in findings(text))
    return found


def limits() -> dict[tuple[str, str], int]:
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return {(row["what"], row["where"]): int(row["most"]) for row in csv.DictReader(stream)}


def test_no_text_goes_back() -> None:
    """A text that is not listed has no finding."""
    allowed = limits()
    assert {key: count for key, count in counted().items() if count > allowed.get(key, 0)} == {}


@pytest.mark.parametrize("habit", RULES, ids=lambda habit: habit["write"])
def test_each_habit_names_what_to_write(habit) -> None:
    assert set(habit) == {"write", "pattern"}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Have standard ops alone.", 1),
        ("A node that is left alone.", 0),
        ("The report shows what changed.", 0),
        ("It lists of what is written the nodes.", 1),
        ("It is no theorem.", 1),
        ("It is no longer there.", 0),
        ("Both are held against the same formula.", 1),
        ("A rule does not match if another node reads the tensor.", 0),
        ("A word " * 40, 1),
    ],
)
def test_what_is_found(text: str, count: int) -> None:
    assert len(list(findings(text))) == count


def test_code_is_not_prose() -> None:
    table = "| a | is no head |\n|---|---|\n| x | y |\n"
    page = f"A page.\n\n```text\nIt is no theorem.\n```\n\n`is no` code and [a link](what-is.md).\n\n{table}"
    assert sum(1 for text in paragraphs(page) for _ in findings(text)) == 1


def test_messages_and_docstrings_are_read_apart() -> None:
    parsed = ast.parse('"""A module."""\nX = "key"\nraise E(f"{a} is no size; write 4GB")\n')
    assert list(docstrings(parsed)) == ["A module."]
    assert list(messages(parsed)) == ["X is no size; write 4GB"]


def main() -> None:
    """Write the table, or list the findings of files."""
    if not sys.argv[1:]:
        with TABLE.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(("what", "where", "most"))
            writer.writerows((*key, count) for key, count in sorted(counted().items()) if count)
        return
    for name in sys.argv[1:]:
        text = Path(name).read_text(encoding="utf-8")
        is_code = name.endswith(".py")
        texts = [*docstrings(ast.parse(text)), *messages(ast.parse(text))] if is_code else list(paragraphs(text))
        for found, advice in (one for each in texts for one in findings(each)):
            print(f"{name}: …{found}… -> {advice}")


if __name__ == "__main__":
    main()
