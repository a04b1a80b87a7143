"""Proofs of earlier runs, in a folder of the user: SURGEON_CACHE, or the system's folder for caches.

A proof is one small text file `proofs/ab/abcdef….proof`: a checksum, and the `SiteProof` as JSON.  No entry runs code,
and one that is not byte for byte what `keep` writes is ignored, and replaced by the next proof of its case.

Only proved cases are stored.  A failed or unproved proof may be due to a limit of time or memory, and its reason names
inputs of one model.  If it were stored, later runs would reject the rewrite until somebody clears the folder.
"""

import json
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from surgeon.file.io.cache_folder import MAX_ENTRY, cache_folder, mark_used, read_entry, trim_folder, write_entry
from surgeon.proof.cache.environment import environment
from surgeon.proof.check_result import Outcome
from surgeon.proof.site_proof import SiteProof
from surgeon.runtime.processes.dataclass_json import from_json_value, to_json_value

SUFFIX = ".proof"
# A proof takes 2 to 6 kB.  64 MiB are those of some thousand models, and no burden to a home folder.  Each of 256
# folders keeps to its share, so that a new proof looks through one folder only.
MAX_BYTES, FOLDERS = 1 << 26, 256


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
        text = read_entry(path, MAX_ENTRY)
        if text is None:
            return None
        try:
            proof = from_json_value(SiteProof, json.loads(text))
            if text != _text(proof) or proof.outcome is not Outcome.PROVED:
                return None
        except (ValueError, ArithmeticError, RecursionError):  # not written by `keep`
            return None
        mark_used(path)
        return replace(proof, remembered=True)

    def keep(self, key: str, proof: SiteProof) -> None:
        """Store a proof for later runs."""
        path = self._path(key)
        with suppress(OSError):
            text = _text(from_json_value(SiteProof, to_json_value(proof)))  # floats are floats in it
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            if write_entry(path, text, MAX_ENTRY):
                trim_folder(path.parent, SUFFIX, MAX_BYTES // FOLDERS)


def _text(proof: SiteProof) -> bytes:
    return json.dumps(to_json_value(proof), ensure_ascii=False).encode()


def disk_store() -> DiskProofStore | None:
    """The store of this user; None without a folder for it (see `cache_folder`)."""
    root = cache_folder()
    return None if root is None else DiskProofStore(root)
