"""Tables of models and of rows: lists of lines, JSONL, and parquet if pyarrow is installed."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from surgeon.automation.fleet.fleet_row import FleetRow
from surgeon.automation.fleet.storage.storage import storage_errors, storage_of
from surgeon.errors import ModelFileError, UsageError
from surgeon.file.io.file_copy import write_all

_BATCH = 1 << 12  # rows in memory at once
# Columns of text that hold JSON.
_NESTED = ("counts", "edits", "proofs", "proved_in", "files", "made", "versions", "limits", "facts")


def read_table(url: str) -> Iterator[Mapping[str, Any]]:
    """The rows of a table, by its suffix: .parquet, .jsonl, or lines of text, each a source.

    Raises UsageError if the table is missing or invalid.
    """
    storage, path = storage_of(url)
    if storage.stored(path) is None:
        raise UsageError(f"Table not found: {url}")
    if url.endswith(".parquet"):
        yield from _parquet_rows(url)
        return
    text = (storage.text(path) or "").removeprefix("\ufeff")  # editors of Windows add it
    lines = [line.strip() for line in text.split("\n")]  # names may contain other line separators
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        if not url.endswith(".jsonl"):
            yield {"source": line}
            continue
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UsageError(f"{url}, line {number}: not a JSON object")
        yield found


def _parquet_rows(url: str) -> Iterator[Mapping[str, Any]]:
    parquet = _parquet(url)
    try:
        with storage_errors(url, "read"), parquet.ParquetFile(url if "://" not in url else _open_remote(url)) as file:
            for batch in file.iter_batches(_BATCH):
                yield from (_with_parsed_columns(row) for row in batch.to_pylist())
    except ModelFileError as error:
        raise UsageError(str(error)) from None


def _open_remote(url: str) -> Any:
    import fsspec

    return fsspec.open(url, "rb").open()


def _parquet(url: str) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise UsageError(f"{url} needs pyarrow. Install it (pip install pyarrow), or use .jsonl.") from None
    return parquet


def _with_parsed_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its JSON columns parsed."""
    return {key: json.loads(item) if key in _NESTED and isinstance(item, str) else item for key, item in row.items()}


def require_table(path: str, sources: Iterable[str | os.PathLike[str]]) -> None:
    """Raise UsageError for a table that cannot be written, or that is one of the sources."""
    if any(os.path.realpath(path) == os.path.realpath(source) for source in sources):
        raise UsageError(f"{path} is the table of the models. Give another file for the rows.")
    if not path.endswith((".jsonl", ".parquet")):
        raise UsageError(f"{path} must end in .jsonl or .parquet.")
    if path.endswith(".parquet"):
        _parquet(path)
    if not Path(path).absolute().parent.is_dir():
        raise UsageError(f"The folder of {path} does not exist. Create it first.")


@contextmanager
def append_rows(path: str | None) -> Iterator[Callable[[FleetRow], None]]:
    """A function that appends a row to a file, each as a complete line; for no path, a function that does nothing."""
    if path is None:
        yield lambda row: None
        return
    with storage_errors(path, "written"):
        file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed below, outside storage_errors
    with file:

        def add(row: FleetRow) -> None:
            with storage_errors(path, "written"):
                write_all(file.fileno(), f"{row.line()}\n".encode())

        yield add


def write_parquet(rows: Iterable[FleetRow], path: str) -> None:
    """Write rows as parquet, in batches."""
    import pyarrow as pa

    parquet = _parquet(path)
    text, number = pa.string(), pa.int64()
    columns = dict.fromkeys(("model", "source", "target", "outcome", "why", *_NESTED, "graph", "key"), text)
    columns |= dict.fromkeys(("rolled_back", "size", "read", "written"), number)
    columns |= {"nodes": pa.list_(number), "seconds": pa.float64(), "kept": pa.bool_(), "stale": pa.bool_()}
    schema = pa.schema(list(columns.items()))
    remaining = iter(rows)
    with storage_errors(path, "written"), parquet.ParquetWriter(path, schema) as writer:
        while batch := list(islice(remaining, _BATCH)):
            writer.write_table(pa.Table.from_pylist([_with_json_columns(row) for row in batch], schema))


def _with_json_columns(row: FleetRow) -> dict[str, Any]:
    return {
        key: json.dumps(value, ensure_ascii=False) if key in _NESTED else value for key, value in row.to_dict().items()
    }
