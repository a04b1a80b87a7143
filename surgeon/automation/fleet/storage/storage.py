"""The storage of models: local folders and stores that fsspec supports, with one interface.

A path is the storage's own name of a file; a URL is the name that users give.  An error is one sentence: a
ModelFileError if it is permanent, a TransientStorageError if a retry may help.
"""

import errno
import os
import shutil
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surgeon.errors import ModelFileError, SurgeonError, UsageError
from surgeon.versions import install_command

METADATA_FOLDER = ".surgeon"
"""The folder below a target for surgeon's own files."""
_TEMPORARY = "tmp"
# Keys of a store's metadata that change with a file, the most reliable first.
_TOKENS = ("ETag", "etag", "sha256", "md5Hash", "content_md5", "checksum", "CRC", "mtime", "LastModified", "updated")
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "hf", "memory"}
_DATES = ("last_modified", "modified", "created")
_REMOTE_IO = 121  # the errno of a failure inside a store; the module errno has its name only on Linux
_TRANSIENT_ERRNOS = {_REMOTE_IO, errno.EIO, errno.EBUSY, errno.EAGAIN, errno.ETIMEDOUT, errno.ECONNRESET, errno.EPIPE}
_TRANSIENT_ERRNOS.add(errno.ECONNREFUSED)
_CLAUSES = {
    FileNotFoundError: "file not found",
    PermissionError: "permission denied",
    IsADirectoryError: "it is a folder",
    NotADirectoryError: "its folder is a file",
}


class TransientStorageError(ModelFileError):
    """A store did not answer, or refused for now."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a storage."""

    path: str
    """The path in its storage."""
    size: int
    """The size in bytes."""
    token: str
    """A token that changes with the file."""


class Storage(ABC):
    """Files by their paths.  has_atomic_writes: whether a file is visible only when it is complete."""

    is_local = False
    has_atomic_writes = False

    @abstractmethod
    def url(self, path: str) -> str:
        """The URL of a file."""

    @abstractmethod
    def find(self, folder: str, depth: int | None = None) -> Iterator[StoredFile]:
        """All files below a folder, also hidden ones, in any order; none below a missing folder.

        depth: how many levels of folders to search at least, None for all.  With a number, links to folders are
        followed.
        """

    @abstractmethod
    def stored(self, path: str) -> StoredFile | None:
        """One file in its current state; None if it does not exist."""

    @abstractmethod
    def read(self, path: str, start: int, end: int) -> bytes:
        """The bytes `[start, end)` of a file."""

    @abstractmethod
    def text(self, path: str) -> str | None:
        """The text of a small file; None if it does not exist."""

    @abstractmethod
    def write_text(self, path: str, text: str) -> None:
        """Write a small file atomically."""

    @abstractmethod
    def download(self, path: str, to: Path) -> None:
        """Copy a file to this machine, in chunks."""

    @abstractmethod
    def send(self, file: Path, to: str) -> None:
        """Move or copy a local file into the storage."""

    @abstractmethod
    def copy(self, path: str, to: str) -> None:
        """Copy a file inside the storage."""

    @abstractmethod
    def move(self, path: str, to: str) -> None:
        """Rename a file, and replace a file of the new name."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its files, if it exists."""

    @abstractmethod
    def is_same(self, other: "Storage") -> bool:
        """Whether the storage can copy from the other one by itself."""

    def join(self, folder: str, name: str) -> str:
        """The path of a file below a folder."""
        return f"{folder.rstrip('/')}/{name}" if folder else name


def storage_of(url: str | os.PathLike[str]) -> tuple[Storage, str]:
    """The storage of a URL, and the path in it.  Raises UsageError for an invalid URL."""
    text = os.fspath(url)
    if "://" not in text and "::" not in text:
        return LocalStorage(), os.path.abspath(text)
    if text.startswith("file://") and "::" not in text:
        return LocalStorage(), os.path.abspath(text.removeprefix("file://"))
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UsageError(f"{text} is in a store, which needs fsspec. Install it: {install_command('fleet')}") from None
    try:
        system, path = url_to_fs(text, use_listings_cache=False)
    except ImportError as error:  # the store needs a package
        raise UsageError(f"{text} cannot be reached: {str(error).rstrip('.')}.") from None
    except ValueError as error:
        raise UsageError(f"{text} is not in a known store: {str(error).rstrip('.')}.") from None
    except Exception as error:  # noqa: BLE001 - each store's package raises its own errors
        raise ModelFileError(f"{text} cannot be reached: {_error_clause(error)}.") from None
    return RemoteStorage(system, text, path), path


def sibling_url(url: str, name: str = "") -> str:
    """The URL of a file in the folder of another file; the URL of the folder for an empty name."""
    head, chained, tail = url.partition("::")
    return f"{head.rpartition('/')[0]}/{name}{chained}{tail}"


class LocalStorage(Storage):
    """Local folders."""

    is_local = True

    def url(self, path: str) -> str:
        return path

    def find(self, folder: str, depth: int | None = None) -> Iterator[StoredFile]:
        for home, folders, names in os.walk(folder, onerror=_raise_listing_error, followlinks=depth is not None):
            if depth is not None and home.removeprefix(folder).count(os.sep) >= depth:
                folders.clear()
            for name in names:
                path = os.path.join(home, name)
                found = self.stored(path)
                if found is not None:
                    yield found
                elif not os.path.exists(path):
                    yield StoredFile(path, 0, "")  # a link to nothing

    def stored(self, path: str) -> StoredFile | None:
        try:
            status = os.stat(path)
        except (OSError, ValueError):  # a name with a zero byte
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return StoredFile(path, status.st_size, f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}")

    def read(self, path: str, start: int, end: int) -> bytes:
        with storage_errors(path, "read"), open(path, "rb") as file:
            file.seek(start)
            return file.read(end - start)

    def text(self, path: str) -> str | None:
        with storage_errors(path, "read"):
            return Path(path).read_text(encoding="utf-8") if os.path.exists(path) else None

    def write_text(self, path: str, text: str) -> None:
        with storage_errors(path, "written"):
            file = Path(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            with _replacing(str(file)) as temporary:
                temporary.write_text(text, encoding="utf-8")

    def download(self, path: str, to: Path) -> None:
        with storage_errors(path, "read"):
            shutil.copyfile(path, to)

    def send(self, file: Path, to: str) -> None:
        with storage_errors(to, "written"):
            os.makedirs(os.path.dirname(to), exist_ok=True)
            try:
                os.replace(file, to)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self.copy(str(file), to)

    def copy(self, path: str, to: str) -> None:
        from surgeon.file.io.file_copy import copy_file, open_new, open_read

        with storage_errors(to, "written"):
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with _replacing(to) as temporary:
                source = open_read(Path(path))
                try:
                    target = open_new(temporary)
                    try:
                        copy_file(source, target)
                    finally:
                        os.close(target)
                finally:
                    os.close(source)

    def move(self, path: str, to: str) -> None:
        self.send(Path(path), to)

    def remove(self, path: str) -> None:
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    def is_same(self, other: Storage) -> bool:
        return other.is_local


@contextmanager
def _replacing(path: str) -> Iterator[Path]:
    """The path of a temporary file that replaces a file at the end, or is removed on an error."""
    temporary = Path(f"{path}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _raise_listing_error(error: OSError) -> None:
    """Raise an error that `os.walk` would ignore; a missing folder is empty."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        with storage_errors(str(error.filename), "listed"):
            raise error


class RemoteStorage(Storage):
    """A file system of fsspec.  system: the file system.  given: a URL in it.  path: the path of that URL.

    URL and path together show the prefix of its URLs: the scheme in an object store, a host elsewhere.
    """

    def __init__(self, system: Any, given: str, path: str) -> None:
        self._system = system
        head, chained, tail = given.partition("::")
        self._protocol = head.partition("://")[0]
        head, path = head.rstrip("/"), path.rstrip("/")
        self._head = head[: len(head) - len(path)] if head.endswith(path) else f"{self._protocol}://"
        self._tail = chained + tail
        self.has_atomic_writes = self._protocol in _OBJECT_STORES

    def url(self, path: str) -> str:
        return f"{self._head}{path}{self._tail}"

    def find(self, folder: str, depth: int | None = None) -> Iterator[StoredFile]:
        with storage_errors(self.url(folder), "listed"):
            try:
                found = self._system.find(folder, detail=True)
            except FileNotFoundError:
                return
        for path, info in found.items():
            yield _stored(path, info)

    def stored(self, path: str) -> StoredFile | None:
        with storage_errors(self.url(path), "read"):
            try:
                info = self._system.info(path)
            except FileNotFoundError:
                return None
        return _stored(path, info) if info.get("type", "file") == "file" else None

    def read(self, path: str, start: int, end: int) -> bytes:
        with storage_errors(self.url(path), "read"):
            data: bytes = self._system.cat_file(path, start=start, end=end)
            return data

    def text(self, path: str) -> str | None:
        with storage_errors(self.url(path), "read"):
            try:
                data: bytes = self._system.cat_file(path)
            except FileNotFoundError:
                return None
            return data.decode("utf-8")

    def write_text(self, path: str, text: str) -> None:
        with storage_errors(self.url(path), "written"):
            self._open_folder(path)
            self._system.pipe_file(path, text.encode("utf-8"))

    def download(self, path: str, to: Path) -> None:
        with storage_errors(self.url(path), "read"):
            self._system.get_file(path, str(to))

    def send(self, file: Path, to: str) -> None:
        with storage_errors(self.url(to), "written"):
            self._open_folder(to)
            self._system.put_file(str(file), to)

    def copy(self, path: str, to: str) -> None:
        with storage_errors(self.url(to), "written"):
            self._open_folder(to)
            self._system.cp_file(path, to)

    def move(self, path: str, to: str) -> None:
        with storage_errors(self.url(to), "written"):
            self._open_folder(to)
            self._system.mv(path, to)

    def remove(self, path: str) -> None:
        with storage_errors(self.url(path), "removed"):
            try:
                self._system.rm(path, recursive=True)
            except FileNotFoundError:
                return
            except OSError:  # some S3 servers refuse bulk deletes without a checksum
                for one in self._system.find(path):
                    self._system.rm_file(one)

    def is_same(self, other: Storage) -> bool:
        return isinstance(other, RemoteStorage) and other._system == self._system

    def _open_folder(self, path: str) -> None:
        """Create the folder of a file; an object store has none, and would create a bucket."""
        if self._protocol not in _OBJECT_STORES:
            self._system.makedirs(path.rpartition("/")[0], exist_ok=True)


def _stored(path: str, info: Mapping[str, Any]) -> StoredFile:
    size = int(info.get("size") or 0)
    token = next((str(info[key]) for key in (*_TOKENS, *_DATES) if info.get(key)), "")
    return StoredFile(path, size, f"{token.strip(chr(34))}-{size:x}")


@contextmanager
def storage_errors(url: str, done: str) -> Iterator[None]:
    """Turn errors of a storage into one sentence.  done: the failed action as a participle."""
    try:
        yield
    except SurgeonError:
        raise
    except Exception as error:  # noqa: BLE001 - each store's package raises its own errors
        if _is_transient(error):
            raise TransientStorageError(f"{url} cannot be {done} at the moment: {_error_clause(error)}.") from None
        raise ModelFileError(f"{url} cannot be {done}: {_error_clause(error)}.") from None


def _is_transient(error: Exception) -> bool:
    """Whether a retry may help: the store or the connection failed."""
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound"):
        return False
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if isinstance(error, OSError):
        return error.errno in _TRANSIENT_ERRNOS
    return any(word in type(error).__name__ for word in ("Connect", "Timeout", "ServerError", "Disconnected"))


def _error_clause(error: Exception) -> str:
    """The message of an error, as a clause."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if "Credential" in type(error).__name__ or "Credentials" in str(error):
        return "no credentials were found; set them up as for the store's own tools"
    for kind, clause in _CLAUSES.items():
        if isinstance(error, kind):
            return clause
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()).rstrip(".") or type(error).__name__


def stage_in(storage: Storage, root: str, home: str | None = None) -> Path:
    """A new local folder for results before they are published: inside a local target, else in `home`.

    A local result is then renamed instead of copied.
    """
    with storage_errors(storage.url(root), "written"):
        if storage.is_local:
            home = os.path.join(root, METADATA_FOLDER, _TEMPORARY)
            os.makedirs(home, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="surgeon-", dir=home))


def staging_path(storage: Storage, root: str, name: str = "") -> str:
    """The path below a target for files that are not published yet."""
    return storage.join(storage.join(root, f"{METADATA_FOLDER}/{_TEMPORARY}"), name).rstrip("/")
