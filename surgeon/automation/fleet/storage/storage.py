"""Where models lie: folders of this machine, and stores that fsspec reaches, in the same words.

A path is what the storage itself calls a file, a URL what a person writes.  Whatever goes wrong there is one sentence:
a ModelFileError where it stays so, a TransientStorageError where another try may do.
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
"""The folder below a target that holds what surgeon notes there."""
_TEMPORARY = "tmp"
# What a store calls what changes with a file, the surest first.
_TOKENS = ("ETag", "etag", "sha256", "md5Hash", "content_md5", "checksum", "CRC", "mtime", "LastModified", "updated")
_OF_OBJECTS = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "hf", "memory"}
_DATES = ("last_modified", "modified", "created")
_REMOTE_IO = 121  # what a store's own failure is told by; errno has its name on Linux alone
_PASSING = {_REMOTE_IO, errno.EIO, errno.EBUSY, errno.EAGAIN, errno.ETIMEDOUT, errno.ECONNRESET, errno.EPIPE}
_PASSING.add(errno.ECONNREFUSED)
_WORDS = {
    FileNotFoundError: "there is nothing of that name",
    PermissionError: "permission is denied",
    IsADirectoryError: "it is a folder",
    NotADirectoryError: "a file lies where its folder should be",
}


class TransientStorageError(ModelFileError):
    """A store did not answer, or answered that it cannot just now."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as its storage lists it.  token: what tells one state of it from another without reading."""

    path: str
    size: int
    token: str


class Storage(ABC):
    """Files by their paths.  has_atomic_writes: whether a file is not seen before all of it is there."""

    is_local = False
    has_atomic_writes = False

    @abstractmethod
    def url(self, path: str) -> str:
        """What a person calls a file."""

    @abstractmethod
    def find(self, folder: str, deep: int | None = None) -> Iterator[StoredFile]:
        """All files below a folder, hidden ones too, in any order; none where there is no such folder.

        deep: how many folders further down to look at least, None for all.  What is at the end of a link to a folder is
        found where a number is given.
        """

    @abstractmethod
    def stored(self, path: str) -> StoredFile | None:
        """One file as it is now; None where there is none."""

    @abstractmethod
    def read(self, path: str, start: int, end: int) -> bytes:
        """The bytes `[start, end)` of a file."""

    @abstractmethod
    def text(self, path: str) -> str | None:
        """A small file; None where there is none."""

    @abstractmethod
    def write_text(self, path: str, text: str) -> None:
        """Write a small file, whole or not at all."""

    @abstractmethod
    def download(self, path: str, to: Path) -> None:
        """Bring a file to this machine, piece by piece."""

    @abstractmethod
    def send(self, file: Path, to: str) -> None:
        """Put a file of this machine there; it may be gone here then."""

    @abstractmethod
    def copy(self, path: str, to: str) -> None:
        """Copy a file inside the storage."""

    @abstractmethod
    def move(self, path: str, to: str) -> None:
        """Give a file another name, in the place of what had it."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Take a file away, or a folder with all in it; nothing where there is none."""

    @abstractmethod
    def is_same(self, other: "Storage") -> bool:
        """Whether it can copy from the other by itself."""

    def join(self, folder: str, name: str) -> str:
        """The path of a file below a folder."""
        return f"{folder.rstrip('/')}/{name}" if folder else name


def storage_of(url: str | os.PathLike[str]) -> tuple[Storage, str]:
    """The storage that a URL names, and the path in it.  Raises UsageError where the URL cannot be read."""
    text = os.fspath(url)
    if "://" not in text and "::" not in text:
        return LocalStorage(), os.path.abspath(text)
    if text.startswith("file://") and "::" not in text:
        return LocalStorage(), os.path.abspath(text.removeprefix("file://"))
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UsageError(f"{text} lies in a store, which needs fsspec: {install_command('fleet')}.") from None
    try:
        system, path = url_to_fs(text, use_listings_cache=False)
    except ImportError as error:  # the package of this store
        raise UsageError(f"{text} cannot be reached: {str(error).rstrip('.')}.") from None
    except ValueError as error:
        raise UsageError(f"{text} names no store: {str(error).rstrip('.')}.") from None
    except Exception as error:  # noqa: BLE001 - whatever a store's package raises on its settings
        raise ModelFileError(f"{text} cannot be reached: {_told(error)}.") from None
    return RemoteStorage(system, text, path), path


def sibling_url(url: str, name: str = "") -> str:
    """The URL of a file that is called so from the folder of another; of the folder itself where no name is given."""
    head, chained, tail = url.partition("::")
    return f"{head.rpartition('/')[0]}/{name}{chained}{tail}"


class LocalStorage(Storage):
    """Folders of this machine."""

    is_local = True

    def url(self, path: str) -> str:
        return path

    def find(self, folder: str, deep: int | None = None) -> Iterator[StoredFile]:
        for home, folders, names in os.walk(folder, onerror=_unlisted, followlinks=deep is not None):
            if deep is not None and home.removeprefix(folder).count(os.sep) >= deep:
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
            with _replaced(str(file)) as made:
                made.write_text(text, encoding="utf-8")

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
            with _replaced(to) as made:
                source = open_read(Path(path))
                try:
                    target = open_new(made)
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
def _replaced(path: str) -> Iterator[Path]:
    """Where a new file is to be made, which takes the place of another when it is whole and is gone otherwise."""
    made = Path(f"{path}.{os.getpid()}.tmp")
    made.unlink(missing_ok=True)
    try:
        yield made
        os.replace(made, path)
    finally:
        made.unlink(missing_ok=True)


def _unlisted(error: OSError) -> None:
    """What `os.walk` would pass over in silence; what is no folder, or none any more, has nothing in it."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        with storage_errors(str(error.filename), "listed"):
            raise error


class RemoteStorage(Storage):
    """What fsspec reaches.  system: its file system.  given: a URL in it, and path: what that is there.

    Together they tell how its files are called: what stands before a path is a bucket's scheme here, a host there.
    """

    def __init__(self, system: Any, given: str, path: str) -> None:
        self._system = system
        head, chained, tail = given.partition("::")
        self._protocol = head.partition("://")[0]
        head, path = head.rstrip("/"), path.rstrip("/")
        self._head = head[: len(head) - len(path)] if head.endswith(path) else f"{self._protocol}://"
        self._tail = chained + tail
        self.has_atomic_writes = self._protocol in _OF_OBJECTS

    def url(self, path: str) -> str:
        return f"{self._head}{path}{self._tail}"

    def find(self, folder: str, deep: int | None = None) -> Iterator[StoredFile]:
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
            except OSError:  # some servers of S3 refuse many at once for a checksum that clients send no more
                for one in self._system.find(path):
                    self._system.rm_file(one)

    def is_same(self, other: Storage) -> bool:
        return isinstance(other, RemoteStorage) and other._system == self._system

    def _open_folder(self, path: str) -> None:
        """Make the folder of a file where the store has such; one of objects would make a bucket instead."""
        if self._protocol not in _OF_OBJECTS:
            self._system.makedirs(path.rpartition("/")[0], exist_ok=True)


def _stored(path: str, info: Mapping[str, Any]) -> StoredFile:
    size = int(info.get("size") or 0)
    token = next((str(info[key]) for key in (*_TOKENS, *_DATES) if info.get(key)), "")
    return StoredFile(path, size, f"{token.strip(chr(34))}-{size:x}")


@contextmanager
def storage_errors(url: str, done: str) -> Iterator[None]:
    """Turn what a storage raises into one sentence.  done: what cannot be done with the file, as a participle."""
    try:
        yield
    except SurgeonError:
        raise
    except Exception as error:  # noqa: BLE001 - each store's package has errors of its own
        if _may_pass(error):
            raise TransientStorageError(f"{url} cannot be {done} just now: {_told(error)}.") from None
        raise ModelFileError(f"{url} cannot be {done}: {_told(error)}.") from None


def _may_pass(error: Exception) -> bool:
    """Whether another try may do: the store failed, or the way to it."""
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound"):
        return False
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if isinstance(error, OSError):
        return error.errno in _PASSING
    return any(word in type(error).__name__ for word in ("Connect", "Timeout", "ServerError", "Disconnected"))


def _told(error: Exception) -> str:
    """What an error says, as a clause."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8"
    if "Credential" in type(error).__name__ or "Credentials" in str(error):
        return "no credentials were found: give them as the store's own tools take them"
    for kind, words in _WORDS.items():
        if isinstance(error, kind):
            return words
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()).rstrip(".") or type(error).__name__


def stage_in(storage: Storage, root: str, home: str | None = None) -> Path:
    """A new folder of this machine for what is on its way to a target: inside it where that is local, else in `home`.

    So nothing has to be copied from one disk to another in the end.
    """
    with storage_errors(storage.url(root), "written"):
        if storage.is_local:
            home = os.path.join(root, METADATA_FOLDER, _TEMPORARY)
            os.makedirs(home, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="surgeon-", dir=home))


def staging_path(storage: Storage, root: str, name: str = "") -> str:
    """Where below a target lies what is not published yet."""
    return storage.join(storage.join(root, f"{METADATA_FOLDER}/{_TEMPORARY}"), name).rstrip("/")
