"""Which models a run is over, and what each is called below the target: all that is refused is refused here."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from surgeon.errors import UsageError
from surgeon.fleet.book import Book, Planned
from surgeon.fleet.storage import Storage, StoredFile, storage_of
from surgeon.fleet.tables import table_rows

Sources: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
_WILD = re.compile(r"[*?\[]")
_TABLES = (".txt", ".parquet", ".jsonl")
_COLUMNS = ("source", "path", "url")  # of a table, the first that it has; `model` names what it is to be called


@dataclass(slots=True)
class FoundModels:
    """The models that were asked for.  folders: where they lie, for a look at all that is there."""

    book: Book
    folders: list[tuple[Storage, str]] = field(default_factory=list)


def find_models(sources: Sources, to: str, book: Book) -> FoundModels:
    """Note in the book which models a run is over.

    Raises UsageError where there is none, two would have one name, or a result would be a source the next time.
    """
    found = FoundModels(book)
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if not given:
        raise UsageError("No model is named; give a pattern, as in 'zoo/**/*.onnx'.")
    storage, root = storage_of(to)
    _refuse_loops(given, storage, root)
    clash = book.plan(_named(given, found))
    if clash is not None:
        both = " and ".join(clash)
        raise UsageError(f"{both} would have one name below {to}; rename one, or name them in a table.")
    if not book.count:
        raise UsageError(f"No model fits {' or '.join(map(str, given))}; see that it is spelled as the store has it.")
    for model in book.planned():
        where, path = _place(model.source, storage)
        if where.is_same(storage) and path == storage.join(root, model.name):
            raise UsageError(f"{model.source} would be written over itself; give another folder for the results.")
    return found


def _place(source: str, target: Storage) -> tuple[Storage, str]:
    """Where a source lies; what is plainly elsewhere than the target is not opened for that."""
    if target.is_local != ("://" not in source):
        return target, ""
    return storage_of(source)


def _refuse_loops(given: list[Any], storage: Storage, root: str) -> None:
    """Refuse a target below a pattern that would take the results for sources."""
    for one in map(os.fspath, given):
        if not _WILD.search(one):
            continue
        where, pattern = storage_of(one)
        inside = storage.join(root, "any/model.onnx"), storage.join(root, "model.onnx")
        if where.is_same(storage) and any(fits(pattern).fullmatch(path) for path in inside):
            raise UsageError(
                f"The results in {storage.url(root)} would fit {one} and be models of the next run; "
                "give a folder outside of it."
            )


def _named(given: list[Any], found: FoundModels) -> Iterator[Planned]:
    for one in map(os.fspath, given):
        if _WILD.search(one):
            yield from _by_pattern(one, found)
        elif one.endswith(_TABLES):
            yield from _by_table(one, found)
        else:
            storage, path = storage_of(one)
            file = storage.stored(path)
            if file is None:
                is_folder = storage.is_local and os.path.isdir(path)
                what = f"is a folder; write {one.rstrip('/')}/**/*.onnx" if is_folder else "is not there; correct it"
                raise UsageError(f"{one} {what}.")
            yield Planned(path.rpartition("/")[2], storage.url(path), file.size, file.token)


def _by_pattern(pattern: str, found: FoundModels) -> Iterator[Planned]:
    storage, path = storage_of(pattern)
    root = _fixed(path)
    found.folders.append((storage, root))
    wanted = fits(path)
    models: list[StoredFile] = [file for file in storage.find(root) if wanted.fullmatch(file.path)]
    for file in sorted(models, key=lambda item: item.path):
        name = file.path[len(root) :].lstrip("/")
        if not any(part.startswith(".") for part in name.split("/")):
            yield Planned(name, storage.url(file.path), file.size, file.token)


def _fixed(path: str) -> str:
    """The folder of a pattern in which all that it fits lies."""
    wild = _WILD.search(path)
    return path if wild is None else path[: wild.start()].rpartition("/")[0]


def fits(pattern: str) -> re.Pattern[str]:
    """A pattern as a shell has it: `**/` is any number of folders, `*` and `?` stay within one."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif pattern.startswith("**", at):
            parts.append(".*")
            at += 2
        elif pattern[at] in "*?":
            parts.append("[^/]*" if pattern[at] == "*" else "[^/]")
            at += 1
        elif pattern[at] == "[" and "]" in pattern[at + 2 :]:
            end = pattern.index("]", at + 2)
            inner = pattern[at + 1 : end]
            parts.append(f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]".replace("\\", "\\\\"))
            at = end + 1
        else:
            parts.append(re.escape(pattern[at]))
            at += 1
    return re.compile("".join(parts))


def _by_table(table: str, found: FoundModels) -> Iterator[Planned]:
    """The models that a list or a table names; in a file of this machine, paths count from its folder."""
    rows = list(table_rows(table))
    if not rows:
        raise UsageError(f"{table} names no model; write one to a line.")
    column = next((name for name in _COLUMNS if name in rows[0]), None)
    if column is None:
        raise UsageError(f"{table} has no column {_COLUMNS[0]!r}, which says where a model lies; name one so.")
    local = "://" not in table
    urls = [str(row[column]) for row in rows]
    urls = [str(Path(table).parent / url) if local and "://" not in url else url for url in urls]
    places = [storage_of(url) for url in dict.fromkeys(urls)]
    common = _common([path for _, path in places])
    found.folders += [(storage, common) for storage, _ in places[:1] if common]
    for row, url in zip(rows, urls, strict=True):
        storage, path = storage_of(url)
        file = storage.stored(path)
        if file is None:
            raise UsageError(f"{table} names {url}, which is not there; correct it.")
        name = str(row.get("model") or path[len(common) :].lstrip("/"))
        if ".." in name.split("/") or name.startswith("/"):
            raise UsageError(f"{table} names a result {name!r}, which would lie outside of the target; correct it.")
        yield Planned(name, storage.url(path), file.size, file.token)


def _common(paths: list[str]) -> str:
    """The folder that all paths have in common."""
    folders = [path.rpartition("/")[0].split("/") for path in paths]
    common: list[str] = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)
