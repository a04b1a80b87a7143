"""The user's folder for results of earlier runs: SURGEON_CACHE, or the system's folder for caches.

No process waits for another: an entry appears by a rename, and a reader sees the old one, the new one or none.  An
entry starts with a checksum of its name and its text, so that a damaged one counts as none.
"""

import os
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from surgeon.versions import DISTRIBUTION

VARIABLE, OFF = "SURGEON_CACHE", "off"
TEMPORARY = ".tmp"
MAX_ENTRY = 1 << 16  # bytes of a proof or a note: ten times a long proof
MAX_FOLDER = 1 << 18  # bytes of one folder of proofs, and of all notes: 60 proofs, or 7,900 notes


def cache_folder() -> Path | None:
    """The folder, which may not exist yet; None if SURGEON_CACHE is "off", or if the system names no folder."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen.casefold() == OFF:
        return None
    if chosen:
        return Path(chosen)
    import platformdirs  # not at the top: few commands need it

    root = platformdirs.user_cache_path(DISTRIBUTION, appauthor=False)
    return root if root.is_absolute() else None  # a user without a home has "~" there


def read_entry(path: Path, most: int) -> bytes | None:
    """The text of an entry; None without one.  most: bytes that a file of an entry may have."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None  # not written by `write_entry`; opening a pipe would wait
        content = path.read_bytes()
    except OSError:
        return None
    text = content.partition(b"\n")[2]
    return text if content == _content(path, text) else None


def write_entry(path: Path, text: bytes, most: int) -> bool:
    """Write an entry and return whether it is there; an entry of more than `most` bytes is not written.

    Its folder is made if it is missing.  Raises OSError.
    """
    content = _content(path, text)
    if len(content) > most:
        return False
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    # Not synced: after a power failure the checksum differs.  Random: containers share process ids.
    temporary = path.with_name(f"{os.urandom(8).hex()}{TEMPORARY}{path.suffix}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def trim_folder(folder: Path, suffix: str, most: int) -> None:
    """Remove the least recently used entries of a folder beyond `most` bytes, and files of killed processes."""
    entries: list[tuple[float, int, str]] = []
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith(suffix) and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                entries.append((status.st_mtime, status.st_size, entry.path))
    excess = sum(size for _, size, _ in entries) - most
    for _, size, path in sorted(entries):
        if excess <= 0:
            return
        os.unlink(path)
        excess -= size


def mark_used(path: Path) -> None:
    """Set the time of an entry's last use, by which `trim_folder` chooses."""
    with suppress(OSError):
        os.utime(path)


def _content(path: Path, text: bytes) -> bytes:
    """The bytes of an entry; the checksum is of its name too, so that no entry counts for another."""
    return blake2b(path.name.encode() + text, digest_size=16).hexdigest().encode() + b"\n" + text
