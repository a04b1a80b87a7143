"""Which models a run is over, and what each is called below the target: all that is refused is refused here."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from surgeon.automation.fleet.run_database import PlannedModel, RunDatabase
from surgeon.automation.fleet.storage.storage import METADATA_FOLDER, Storage, StoredFile, storage_of
from surgeon.automation.fleet.table_files import read_table
from surgeon.errors import UsageError

Sources: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
_WILD = re.compile(r"[*?\[]")
_CLASS = re.compile(r"\[([!^]?)(\]?[^\]]+|\])\]")  # of a pattern: one of these characters, or none of them
_TABLES = (".txt", ".parquet", ".jsonl")
_COLUMNS = ("source", "path", "url")  # of a table, the first that it has; `model` names what it is to be called


@dataclass(slots=True)
class FoundModels:
    """The models that were asked for.  folders: where they lie, for a look at all that is there."""

    book: RunDatabase
    folders: list[tuple[Storage, str]] = field(default_factory=list)


def find_models(sources: Sources, to: str, book: RunDatabase) -> FoundModels:
    """Note in the book which models a run is over.

    Raises UsageError where there is none, two would have one name, or a result would be a source the next time.
    """
    found = FoundModels(book)
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if not given or not all(given):
        raise UsageError("No model is named; give a pattern, as in 'zoo/**/*.onnx'.")
    storage, root = storage_of(to)
    _refuse_loops(given, storage, root)
    clash = book.plan(map(_well_named, _named(given, found)))
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


def _well_named(model: PlannedModel) -> PlannedModel:
    """The same.  Raises UsageError where no file can be called so, or none of the target's."""
    try:
        f"{model.name}{model.source}".encode()
    except UnicodeEncodeError:
        raise UsageError(f"The name of {model.source} is not in UTF-8; give the file another.") from None
    parts = model.name.split("/")
    if "\0" in model.name or parts[0] == METADATA_FOLDER or not {"", ".", ".."}.isdisjoint(parts):
        raise UsageError(f"The result of {model.source} cannot be called {model.name!r} below the target; correct it.")
    return model


def _place(source: str, target: Storage) -> tuple[Storage, str]:
    """Where a source lies; what is plainly elsewhere than the target is not opened for that."""
    if target.is_local != ("://" not in source):
        return target, ""
    return storage_of(source)


def _refuse_loops(given: list[Any], storage: Storage, root: str) -> None:
    """Refuse a target below a pattern that would take the results for sources."""
    for one in map(os.fspath, given):
        if not _is_pattern(one):
            continue
        where, pattern = storage_of(one)
        inside = storage.join(root, "any/model.onnx"), storage.join(root, "model.onnx")
        if where.is_same(storage) and any(fits(pattern).fullmatch(path) for path in inside):
            raise UsageError(
                f"The results in {storage.url(root)} would fit {one} and be models of the next run; "
                "give a folder outside of it."
            )


def _named(given: list[Any], found: FoundModels) -> Iterator[PlannedModel]:
    for one in map(os.fspath, given):
        if _is_pattern(one):
            yield from _by_pattern(one, found)
        elif one.endswith(_TABLES):
            yield from _by_table(one, found)
        else:
            storage, path = storage_of(one)
            file = storage.stored(path)
            if file is None:
                raise UsageError(f"{one} {_absence(one, storage, path)}.")
            yield PlannedModel(path.rpartition("/")[2], storage.url(path), file.size, file.token)


def _is_pattern(given: str) -> bool:
    """Whether it has a wildcard; a file of this machine that is called so is meant by it, as in a shell."""
    return _WILD.search(given) is not None and not os.path.isfile(given)


def _absence(given: str, storage: Storage, path: str) -> str:
    """Why what is named is no model."""
    if storage.is_local and os.path.isdir(path):
        return f"is a folder; write {given.rstrip('/')}/**/*.onnx"
    if storage.is_local and os.path.exists(path):
        return "is no file that can be read twice; write the model to one"
    return "is not there; correct it"


def _by_pattern(pattern: str, found: FoundModels) -> Iterator[PlannedModel]:
    storage, path = storage_of(pattern)
    root = _fixed(path)
    found.folders.append((storage, root))
    wanted = fits(path)
    deep = None if "**" in path else path[len(root) :].strip("/").count("/")
    models: list[StoredFile] = [file for file in storage.find(root, deep) if wanted.fullmatch(file.path)]
    for file in sorted(models, key=lambda item: item.path):
        name = file.path[len(root) :].lstrip("/")
        if not any(part.startswith(".") for part in name.split("/")):
            yield PlannedModel(name, storage.url(file.path), file.size, file.token)


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
        elif (found := _CLASS.match(pattern, at)) is not None:
            parts.append(_one_of(pattern, *found.groups()))
            at = found.end()
        else:
            parts.append(re.escape(pattern[at]))
            at += 1
    return re.compile("".join(parts))


def _one_of(pattern: str, inverted: str, characters: str) -> str:
    """A class of characters, whose ranges alone mean something in it."""
    one = f"[{'^/' * bool(inverted)}{re.sub(r'[^-]', lambda found: re.escape(found[0]), characters)}]"
    try:
        re.compile(one)
    except re.error:
        raise UsageError(f"[{characters}] of {pattern} is no range of characters; write its ends in order.") from None
    return one


def _by_table(table: str, found: FoundModels) -> Iterator[PlannedModel]:
    """The models that a list or a table names; in a file of this machine, paths count from its folder."""
    rows = list(read_table(table))
    if not rows:
        raise UsageError(f"{table} names no model; write one to a line.")
    column = next((name for name in _COLUMNS if name in rows[0]), _COLUMNS[0])
    lacking = next((number for number, row in enumerate(rows, 1) if not isinstance(row.get(column), str)), None)
    if lacking is not None:
        which = f"Row {lacking} of {table} has no {column!r}"
        raise UsageError(f"{which}, a text that says where a model lies; write it there.")
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
        yield PlannedModel(name, storage.url(path), file.size, file.token)


def _common(paths: list[str]) -> str:
    """The folder that all paths have in common."""
    folders = [path.rpartition("/")[0].split("/") for path in paths]
    common: list[str] = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)
