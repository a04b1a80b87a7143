"""Exports made at one batch by both of torch's exporters, beside what torch answers at batches of 1, 2 and 7.

Made on first use, one at a time, and kept in the cache folder; torch is loaded only then.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.architectures.cases import ARCHITECTURES as WHOLE
from tests.architectures.exporting import folder

ARCHITECTURES = (
    *WHOLE,
    *("roberta", "albert", "electra", "mpnet", "bloom", "opt", "gpt_neox", "mistral", "bart", "classifier"),
    *("swin", "segformer", "resnet", "mobilenet", "regnet", "mobilevit", "deit", "beit", "siglip"),
    *("lstm", "gru", "encoder"),
)
EXPORTERS = {"ts": 17, "dynamo": 20}
BATCHES = (1, 2, 7)
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Export:
    """An export whose sizes are all fixed.

    path: the file.  axes: of each input that has a batch, its place.  fed, wanted: by batch, what torch was given by
    name, and what it answered in order.
    """

    path: Path
    axes: dict[str, int]
    fed: dict[int, Arrays]
    wanted: dict[int, list[np.ndarray]]


def export(arch: str, exporter: str) -> Export:
    """The export of an architecture at a batch of 1, and torch's answers."""
    here = Path(__file__).parent
    sources = [here / "sized_models.py", here / "sized_exports.py", here.parent / "architectures" / "models.py"]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]
    path = folder() / f"{key}-one-{arch}-{exporter}.onnx"
    archive = folder() / f"{key}-one-{arch}.npz"
    if not (path.exists() and archive.exists()):
        _make(arch, exporter, path, archive)
    with np.load(archive) as held:
        arrays = dict(held)
    axes = {name.partition(":")[2]: int(place) for name, place in arrays.items() if name.startswith("axis:")}
    fed: dict[int, Arrays] = {}
    wanted: dict[int, list[np.ndarray]] = {}
    for batch in BATCHES:
        head = f"fed:{batch}:"
        fed[batch] = {name.removeprefix(head): array for name, array in arrays.items() if name.startswith(head)}
        head = f"wanted:{batch}:"
        places = [name for name in arrays if name.startswith(head)]
        wanted[batch] = [arrays[f"{head}{place}"] for place in range(len(places))]
    return Export(path, axes, fed, wanted)


def _make(arch: str, exporter: str, path: Path, archive: Path) -> None:
    """Export a model and ask torch, files whole or not at all."""
    import torch

    from tests.architectures import models
    from tests.edits import sized_models
    from tests.matrix.torch_export import quiet

    torch.manual_seed(models.SEED)
    found = sized_models.BUILDERS[arch]()
    models._unsettle(found.model)
    module = models.Named(found).eval()
    axes = {name: place for name in found.inputs for place, dim in found.axes.get(name, {}).items() if dim == "batch"}

    def at(batch: int) -> dict[str, torch.Tensor]:
        return {name: _rows(x, axes[name], batch) if name in axes else x for name, x in found.inputs.items()}

    arrays: Arrays = {f"axis:{name}": np.asarray(place) for name, place in axes.items()}
    for batch in BATCHES:
        with torch.no_grad():
            answer = module(*at(batch).values())
        arrays.update({f"fed:{batch}:{name}": x.numpy() for name, x in at(batch).items()})
        given = answer if isinstance(answer, tuple) else (answer,)
        arrays.update({f"wanted:{batch}:{place}": x.numpy() for place, x in enumerate(given)})
    folder().mkdir(parents=True, exist_ok=True)
    options = {"opset_version": EXPORTERS[exporter], "input_names": list(found.inputs)}
    if exporter == "ts":
        options["dynamo"] = False
    else:
        options |= {"dynamo": True, "external_data": False, "verbose": False}
    partial = path.with_name(f".{os.getpid()}-{path.name}")
    with quiet():
        torch.onnx.export(module, tuple(at(1).values()), str(partial), **options)
    np.savez(partial.with_suffix(".npz"), **arrays)
    partial.with_suffix(".npz").replace(archive)
    partial.replace(path)


def _rows(x, axis: int, batch: int):
    """So many samples: the first as it is, the others of the same values in other places."""
    import torch

    first = x.narrow(axis, 0, 1)
    along = -1 if axis != x.ndim - 1 else 0
    if x.is_floating_point():
        generator = torch.Generator().manual_seed(batch)
        others = [torch.randn(first.shape, generator=generator) for _ in range(batch - 1)]
    elif x.ndim == 1:
        others = [x.narrow(axis, number % x.shape[axis], 1) for number in range(1, batch)]
    else:
        others = [first.roll(number, along) for number in range(1, batch)]
    return torch.cat([first, *others], axis)
