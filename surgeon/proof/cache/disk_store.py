"""Proofs of earlier runs, in a folder of the user: SURGEON_CACHE, or the system's folder for caches.

A proof is one small text file `proofs/ab/abcdef….proof`: a checksum, and the `SiteProof` as JSON.  No entry runs code,
and one that is not byte for byte what `keep` writes is ignored, and replaced by the next proof of its case.

Only proved cases are stored.  A failed or unproved one may be due to a limit of time or memory, its reason names inputs
of its own model, and a stored one would keep a rewrite out of a model for as long as nobody clears the folder.

No process waits for another: files appear by a rename, and a reader sees the old file, the new one or none.
"""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from surgeon.proof.cache.environment import environment
from surgeon.proof.check_result import Outcome
from surgeon.proof.site_proof import SiteProof
from surgeon.runtime.processes.dataclass_json import from_json_value, to_json_value
from surgeon.versions import DISTRIBUTION

VARIABLE, OFF = "SURGEON_CACHE", "off"
SUFFIX = ".proof"
# A proof takes 2 to 6 kB.  64 MiB are those of some thousand models, and no burden to a home folder.  Each of 256
# folders keeps to its share, so that a new proof looks through one folder only.
MAX_BYTES, FOLDERS = 1 << 26, 256
MAX_ENTRY = 1 << 16  # bytes of one proof: ten times a long one, and a quarter of a folder's share


class DiskProofStore:
    """The proofs in one folder.  What the system refuses (no access, no space) is a proof that is not there."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "proofs"

    def _path(self, key: str) -> Path:
        name = blake2b(f"{environment()} {key}".encode(), digest_size=24).hexdigest()
        return self._folder / name[:2] / f"{name}{SUFFIX}"

    def find(self, key: str) -> SiteProof | None:
        """The proof of a case, marked as remembered."""
        path = self._path(key)
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_ENTRY:
                return None  # not written by `keep`; opening a pipe would wait
            content = path.read_bytes()
            proof = from_json_value(SiteProof, json.loads(content.partition(b"\n")[2]))
            if content != _content(path, proof) or proof.outcome is not Outcome.PROVED:
                return None
        except (OSError, ValueError, ArithmeticError, RecursionError):  # the last three: not written by `keep`
            return None
        with suppress(OSError):
            os.utime(path)  # the time of its last use, by which `_trim` chooses
        return replace(proof, remembered=True)

    def keep(self, key: str, proof: SiteProof) -> None:
        """Store a proof for later runs."""
        path = self._path(key)
        with suppress(OSError):
            content = _content(path, from_json_value(SiteProof, to_json_value(proof)))  # floats are floats in it
            if len(content) > MAX_ENTRY:
                return
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            path.parent.mkdir(exist_ok=True)
            # Not synced: of a power failure the checksum tells.  Random: containers share process ids.
            temporary = path.with_name(f"{os.urandom(8).hex()}.tmp{SUFFIX}")
            try:
                with temporary.open("xb") as file:
                    file.write(content)
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            _trim(path.parent)


def _content(path: Path, proof: SiteProof) -> bytes:
    """The bytes of an entry; the checksum is of its name too, so that no entry counts for another case."""
    text = json.dumps(to_json_value(proof), ensure_ascii=False).encode()
    return blake2b(path.name.encode() + text, digest_size=16).hexdigest().encode() + b"\n" + text


def _trim(folder: Path) -> None:
    """Remove the least recently used entries of a folder beyond its share, with what killed processes left."""
    entries = sorted(_entries(folder))
    excess = sum(size for _, size, _ in entries) - MAX_BYTES // FOLDERS
    for _, size, path in entries:
        if excess <= 0:
            return
        os.unlink(path)
        excess -= size


def _entries(folder: Path) -> Iterator[tuple[float, int, str]]:
    """The time of the last use, the size and the path of each file of this module."""
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield status.st_mtime, status.st_size, entry.path


def disk_store() -> DiskProofStore | None:
    """The store of this user; None where SURGEON_CACHE is "off", or where the system names no folder."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen.casefold() == OFF:
        return None
    if chosen:
        return DiskProofStore(Path(chosen))
    import platformdirs  # not at the top: few commands prove

    root = platformdirs.user_cache_path(DISTRIBUTION, appauthor=False)
    return DiskProofStore(root) if root.is_absolute() else None  # a user without a home has "~" there
