"""What torch answers where a text is longer or a picture larger than the export: beside `sized_exports`.

Asked of torch once and kept in the cache folder.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.architectures.exporting import folder
from tests.edits.sized_exports import Arrays

WORDS, HEIGHTS = (4, 9, 12), (48, 64)


@dataclass(frozen=True)
class Length:
    """A size that is freed.  input: the one that has it, None for all.  exporters: whose files allow it."""

    axis: int
    sizes: tuple[int, ...]
    exporters: tuple[str, ...] = ("ts", "dynamo")
    input: str | None = None


LENGTHS = {
    **dict.fromkeys(("bert", "distilbert", "gpt2", "opt", "bloom"), Length(1, WORDS, ("ts",))),
    "roberta": Length(1, WORDS),
    **dict.fromkeys(("resnet", "convnext", "mobilenet", "regnet"), Length(2, HEIGHTS)),
    "mobilevit": Length(2, (32, 96)),
    "vae_decoder": Length(2, (6, 8)),
    "vae_encoder": Length(2, (12, 20)),
    "unet": Length(2, (12, 16), ("ts",), "sample"),
    "wav2vec2": Length(1, (333, 512), ("ts",)),
    **dict.fromkeys(("lstm", "gru", "encoder"), Length(0, (3, 11))),
}
"""Others hold folded masks, or tables of places, of the length: they are refused."""


def answers(arch: str) -> dict[int, tuple[Arrays, list[np.ndarray]]]:
    """By size, what torch was given by name, and what it answered in order."""
    here = Path(__file__).parent
    sources = [here / "sized_models.py", here / "sized_lengths.py", here.parent / "architectures" / "models.py"]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]
    archive = folder() / f"{key}-lengths-{arch}.npz"
    if not archive.exists():
        _ask(arch, archive)
    with np.load(archive) as held:
        arrays = dict(held)
    found = {}
    for size in LENGTHS[arch].sizes:
        fed = {name.rpartition(":")[2]: array for name, array in arrays.items() if name.startswith(f"fed:{size}:")}
        count = sum(name.startswith(f"wanted:{size}:") for name in arrays)
        found[size] = fed, [arrays[f"wanted:{size}:{place}"] for place in range(count)]
    return found


def _ask(arch: str, text: Path) -> None:
    import torch

    from tests.architectures import models
    from tests.edits import sized_models

    torch.manual_seed(models.SEED)
    found = sized_models.BUILDERS[arch]()
    models._unsettle(found.model)
    module, length = models.Named(found).eval(), LENGTHS[arch]
    batch = {name: place for name in found.inputs for place, dim in found.axes.get(name, {}).items() if dim == "batch"}
    one = {name: x.narrow(batch[name], 0, 1) if name in batch else x for name, x in found.inputs.items()}
    arrays: Arrays = {}
    for size in length.sizes:
        fed = {name: _sized(x, length, size) if length.input in (None, name) else x for name, x in one.items()}
        with torch.no_grad():
            answer = module(*fed.values())
        arrays.update({f"fed:{size}:{name}": x.numpy() for name, x in fed.items()})
        given = answer if isinstance(answer, tuple) else (answer,)
        arrays.update({f"wanted:{size}:{place}": x.numpy() for place, x in enumerate(given)})
    text.parent.mkdir(parents=True, exist_ok=True)
    partial = text.with_name(f".{os.getpid()}-{text.name}")
    np.savez(partial, **arrays)
    partial.replace(text)


def _sized(x, length: Length, size: int):
    """A tensor of another size along the axis: its elements again from the first on."""
    import torch

    again = -(-size // x.shape[length.axis])
    return torch.cat([x] * again, length.axis).narrow(length.axis, 0, size)
