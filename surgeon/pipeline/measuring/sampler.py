"""Measures batches of loads of an original and its variants, and keeps the samples for later runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from io import BytesIO
from pathlib import Path

import numpy as np

from surgeon.file.io.cache_folder import MAX_ENTRY, MAX_FOLDER, cache_folder, read_entry, trim_folder, write_entry
from surgeon.pipeline.checks import Progress
from surgeon.pipeline.measuring.form_variants import FormVariant
from surgeon.proof.cache.environment import environment
from surgeon.runtime.sessions.ep_library import library_of
from surgeon.runtime.timing.bench_tasks import LoadRequest
from surgeon.runtime.timing.idle_share import usable_processors
from surgeon.runtime.timing.load_batches import BATCH, others_share, sample
from surgeon.runtime.timing.samples import LatencySamples

SUFFIX = ".samples"


@dataclass
class StoredSampler:
    """Samples of variants, the original first: those of earlier runs on this machine, then new ones."""

    asked: LoadRequest
    """The original and its inputs, and how models run."""
    sizes: Sequence[Mapping[str, int]]
    """Sizes of the dynamic dims, by shape."""
    original: str
    """Digest of the original's graph."""
    is_stored: bool
    """Whether samples are read and stored."""
    progress: Progress
    """Called before models are measured."""
    measured: dict[str, FormVariant] = field(default_factory=dict)
    """Variants that were measured, by their keys."""
    busy: float = 0.0
    """Largest share of the processors that other processes used in a batch, if it makes the samples useless."""
    used: Counter[Path] = field(default_factory=Counter)
    """Loads that were taken from each entry of the store."""

    def __call__(self, variants: Sequence[FormVariant]) -> LatencySamples:
        """One batch of loads of the original and of some variants; a busy machine is noted, and not stored."""
        self.measured |= {one.key: one for one in variants}
        entry = self._entry([one.key for one in variants]) if self.is_stored else None
        known = None if entry is None else _read(entry)
        start = 0 if entry is None else self.used[entry]
        if entry is not None:
            self.used[entry] += BATCH
        if known is not None and start + BATCH <= len(known):
            return known[np.arange(len(known)) // BATCH == start // BATCH]
        found = self.fresh(variants, start)
        if entry is not None and not self.busy:
            _write(entry, found if known is None else known + found)
        return found

    def fresh(self, variants: Sequence[FormVariant], order: int) -> LatencySamples:
        """One batch of loads, measured now.  order: seed of the order of the models."""
        names = [*self.asked.names, *(", ".join(one.decision.values()) for one in variants)]
        sources = [*self.asked.sources, *(one.model for one in variants)]
        self.progress("measure", len(variants))
        asked = replace(self.asked, names=names, sources=sources, order=order)
        found = sample(asked, self.sizes)
        self.busy = max(self.busy, others_share(asked, found))
        return found

    def _entry(self, keys: Sequence[str]) -> Path | None:
        """The entry for these graphs at these shapes on this machine; None without a cache folder or a key.

        None for a plugin too, because its version is unknown.
        """
        root, asked = cache_folder(), self.asked
        if root is None or not all((self.original, *keys)) or library_of(asked.provider) is not None:
            return None
        machine = environment(), len(usable_processors()), asked.provider, asked.threads
        content = repr((self.original, keys, [sorted(one.items()) for one in self.sizes], machine))
        return root / "samples" / f"{blake2b(content.encode(), digest_size=16).hexdigest()}{SUFFIX}"


def _read(entry: Path) -> LatencySamples | None:
    """The samples of an entry; None without one."""
    content = read_entry(entry, MAX_ENTRY)
    if content is None:
        return None
    with np.load(BytesIO(content), allow_pickle=False) as arrays:
        return LatencySamples(arrays["seconds"], arrays["began"], arrays["idle"])


def _write(entry: Path, samples: LatencySamples) -> None:
    """Store samples.  A cache that cannot be written makes later runs slower, but not wrong."""
    content = BytesIO()
    np.savez_compressed(content, seconds=samples.seconds, began=samples.began, idle=samples.idle)
    with suppress(OSError):
        write_entry(entry, content.getvalue(), MAX_ENTRY)
        trim_folder(entry.parent, SUFFIX, MAX_FOLDER)
