"""Stores proofs in the folder of the results, so that other models can reuse them."""

import json
from collections import Counter

from surgeon.automation.fleet.storage.storage import METADATA_FOLDER, Storage
from surgeon.errors import ModelFileError
from surgeon.proof.cache.environment import environment
from surgeon.proof.site_proof import SiteProof
from surgeon.runtime.processes.dataclass_json import from_json_value, to_json_value

PROOFS = f"{METADATA_FOLDER}/proofs"
_MAX_PROOFS = 4096  # proofs that a process keeps in memory

_seen: dict[tuple[str, str], tuple[SiteProof, str]] = {}


class FleetProofStore:
    """The proofs of a target that one model uses.  `used` counts the reused proofs by the model that they come from.

    If a store does not answer, no proof is found, and the model proves its sites itself.
    """

    def __init__(self, storage: Storage, root: str, model: str) -> None:
        self._storage, self._model, self.used = storage, model, Counter[str]()
        self._folder = storage.join(root, PROOFS)
        self._where = storage.url(root)
        self._environment = environment()[:12]

    def _path(self, key: str) -> str:
        return self._storage.join(self._folder, f"{self._environment}/{key[:2]}/{key}.json")

    def find(self, key: str) -> SiteProof | None:
        """The proof of a case; counts it in `used` if it comes from another model."""
        found = _seen.get((self._where, key)) or self._read(key)
        if found is None:
            return None
        _remember((self._where, key), found)
        if found[1] != self._model:
            self.used[found[1]] += 1
        return found[0]

    def _read(self, key: str) -> tuple[SiteProof, str] | None:
        try:
            text = self._storage.text(self._path(key))
            stored = json.loads(text) if text else None
            return None if stored is None else (from_json_value(SiteProof, stored["proof"]), str(stored["model"]))
        except (ModelFileError, ValueError, KeyError, TypeError):
            return None

    def keep(self, key: str, proof: SiteProof) -> None:
        """Save a proof for other models."""
        _remember((self._where, key), (proof, self._model))
        try:
            text = json.dumps({"model": self._model, "proof": to_json_value(proof)}, ensure_ascii=False)
            self._storage.write_text(self._path(key), text)
        except ModelFileError:
            return  # publishing the model reports the error of the store


def _remember(at: tuple[str, str], found: tuple[SiteProof, str]) -> None:
    while len(_seen) >= _MAX_PROOFS:
        _seen.pop(next(iter(_seen)))
    _seen[at] = found
