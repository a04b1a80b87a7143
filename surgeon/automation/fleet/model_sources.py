"""The models of a run, and the name of each below the target.  Invalid sources are rejected here."""

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
Folders: TypeAlias = list[tuple[Storage, str]]
_WILD = re.compile(r"[*?\[]")
_CLASS = re.compile(r"\[([!^]?)(\]?[^\]]+|\])\]")  # in a pattern: one of these characters, or none of them
_TABLES = (".txt", ".parquet", ".jsonl")
_COLUMNS = ("source", "path", "url")  # the first of these that a table has; `model` is the name of the result


@dataclass(slots=True)
class FoundModels:
    """The models of a run."""

    database: RunDatabase
    """The database of the run."""
    folders: Folders = field(default_factory=list)
    """The folders of the sources, to list their files."""


def find_models(sources: Sources, to: str, database: RunDatabase) -> FoundModels:
    """Add the models of a run to the database.

    Raises UsageError without a model, if two have the same name, or if a result would be a source of the next run.
    """
    found = FoundModels(database)
    given = _given(sources)
    storage, root = storage_of(to)
    _refuse_loops(given, storage, root)
    clash = database.plan(map(_with_valid_name, _listed_models(given, found.folders)))
    if clash is not None:
        both = " and ".join(clash)
        raise UsageError(f"{both} would have the same name below {to}. Rename one, or give names in a table.")
    if not database.count:
        raise _no_model(given)
    for model in database.planned():
        where, path = _source_storage(model.source, storage)
        if where.is_same(storage) and path == storage.join(root, model.name):
            raise UsageError(f"{model.source} would be overwritten. Give another folder for the results.")
    return found


def listed_models(sources: Sources) -> list[PlannedModel]:
    """The models of sources.  Raises UsageError if there is none."""
    given = _given(sources)
    models = list(_listed_models(given, []))
    if not models:
        raise _no_model(given)
    return models


def _given(sources: Sources) -> list[Any]:
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if not given or not all(given):
        raise UsageError("No models given. Give a pattern, for example 'zoo/**/*.onnx'.")
    return given


def _no_model(given: list[Any]) -> UsageError:
    return UsageError(f"No model matches {' or '.join(map(str, given))}. Check the spelling.")


def _with_valid_name(model: PlannedModel) -> PlannedModel:
    """The model.  Raises UsageError if its name is not valid as a file name, or not valid below the target."""
    try:
        f"{model.name}{model.source}".encode()
    except UnicodeEncodeError:
        raise UsageError(f"The name of {model.source} is not valid UTF-8. Rename the file.") from None
    parts = model.name.split("/")
    if "\0" in model.name or parts[0] == METADATA_FOLDER or not {"", ".", ".."}.isdisjoint(parts):
        raise UsageError(f"The result of {model.source} cannot have the name {model.name!r}. Change it in the table.")
    return model


def _source_storage(source: str, target: Storage) -> tuple[Storage, str]:
    """The storage and path of a source; a storage of another kind than the target's is not opened."""
    if target.is_local != ("://" not in source):
        return target, ""
    return storage_of(source)


def _refuse_loops(given: list[Any], storage: Storage, root: str) -> None:
    """Refuse a target below a pattern that would match the results."""
    for source in map(os.fspath, given):
        if not _is_pattern(source):
            continue
        where, pattern = storage_of(source)
        inside = storage.join(root, "any/model.onnx"), storage.join(root, "model.onnx")
        if where.is_same(storage) and any(fits(pattern).fullmatch(path) for path in inside):
            raise UsageError(
                f"The results in {storage.url(root)} would match {source}, and become models of the next run. "
                "Give a folder outside the pattern."
            )


def _listed_models(given: list[Any], folders: Folders) -> Iterator[PlannedModel]:
    for source in map(os.fspath, given):
        if _is_pattern(source):
            yield from _models_of_pattern(source, folders)
        elif source.endswith(_TABLES):
            yield from _models_of_table(source, folders)
        else:
            storage, path = storage_of(source)
            file = storage.stored(path)
            if file is None:
                raise UsageError(_missing_reason(source, storage, path))
            yield PlannedModel(path.rpartition("/")[2], storage.url(path), file.size, file.token)


def _is_pattern(source: str) -> bool:
    """Whether a source has a wildcard; as in a shell, a local file of that name comes first."""
    return _WILD.search(source) is not None and not os.path.isfile(source)


def _missing_reason(source: str, storage: Storage, path: str) -> str:
    """The message for a source that is not a model."""
    if storage.is_local and os.path.isdir(path):
        return f"{source} is a folder. Give a pattern: {source.rstrip('/')}/**/*.onnx"
    if storage.is_local and os.path.exists(path):
        return f"{source} is not a regular file. Write the model to a file first."
    return f"File not found: {source}"


def _models_of_pattern(pattern: str, folders: Folders) -> Iterator[PlannedModel]:
    storage, path = storage_of(pattern)
    root = _fixed_folder(path)
    folders.append((storage, root))
    wanted = fits(path)
    depth = None if "**" in path else path[len(root) :].strip("/").count("/")
    models: list[StoredFile] = [file for file in storage.find(root, depth) if wanted.fullmatch(file.path)]
    for file in sorted(models, key=lambda item: item.path):
        name = file.path[len(root) :].lstrip("/")
        if not any(part.startswith(".") for part in name.split("/")):
            yield PlannedModel(name, storage.url(file.path), file.size, file.token)


def _fixed_folder(path: str) -> str:
    """The folder that contains every match of a pattern."""
    wild = _WILD.search(path)
    return path if wild is None else path[: wild.start()].rpartition("/")[0]


def fits(pattern: str) -> re.Pattern[str]:
    """The regular expression of a shell pattern: `**/` is any number of folders, `*` and `?` stay within one."""
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
            parts.append(_character_class(pattern, *found.groups()))
            at = found.end()
        else:
            parts.append(re.escape(pattern[at]))
            at += 1
    return re.compile("".join(parts))


def _character_class(pattern: str, inverted: str, characters: str) -> str:
    """A class of characters, in which only `-` keeps its meaning."""
    expression = f"[{'^/' * bool(inverted)}{re.sub(r'[^-]', lambda found: re.escape(found[0]), characters)}]"
    try:
        re.compile(expression)
    except re.error:
        raise UsageError(f"[{characters}] in {pattern} is not a range of characters. Reverse its ends.") from None
    return expression


def _models_of_table(table: str, folders: Folders) -> Iterator[PlannedModel]:
    """The models of a list or a table; paths in a local file are relative to its folder."""
    rows = list(read_table(table))
    if not rows:
        raise UsageError(f"{table} contains no model. Write one per line.")
    column = next((name for name in _COLUMNS if name in rows[0]), _COLUMNS[0])
    invalid_row = next((number for number, row in enumerate(rows, 1) if not isinstance(row.get(column), str)), None)
    if invalid_row is not None:
        raise UsageError(f"Row {invalid_row} of {table} has no {column!r}, the path or URL of a model.")
    local = "://" not in table
    urls = [str(row[column]) for row in rows]
    urls = [str(Path(table).parent / url) if local and "://" not in url else url for url in urls]
    places = [storage_of(url) for url in dict.fromkeys(urls)]
    common = _common_folder([path for _, path in places])
    folders += [(storage, common) for storage, _ in places[:1] if common]
    for row, url in zip(rows, urls, strict=True):
        storage, path = storage_of(url)
        file = storage.stored(path)
        if file is None:
            raise UsageError(f"File not found: {url} (in {table})")
        name = str(row.get("model") or path[len(common) :].lstrip("/"))
        yield PlannedModel(name, storage.url(path), file.size, file.token)


def _common_folder(paths: list[str]) -> str:
    """The common parent folder of all paths."""
    folders = [path.rpartition("/")[0].split("/") for path in paths]
    common: list[str] = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)
