"""How a past can be given to each exporter: as tensors, as a tuple of pairs, or as transformers' own cache.

`found()` tries each way on a small Llama and returns the exporter's words where it refuses; kept in the cache folder.
torch loads only where nothing is kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.attention.cases import Case, Variant
from tests.attention.exporting import error_text, keep, kept_at

EXPORTERS = {"ts": 17, "dynamo": 18}
WAYS = {
    "flat": "tensors one by one, made into a cache inside of the model",
    "pairs": "a tuple of pairs (the legacy form), made into a cache inside of the model",
    "pairs_to_the_model": "a tuple of pairs, given to the model of transformers itself",
    "cache": "transformers.DynamicCache",
    "registered_cache": "DynamicCache after transformers' register_dynamic_cache_export_support()",
}


def found() -> dict[str, dict[str, str]]:
    """For each way and exporter what came of it: empty where it was written, else what was raised."""
    path = kept_at("models.py", "pasts.py", "inputs.py", name="pasts.json")
    if not path.exists():
        tried = {way: {exporter: _tried(way, exporter) for exporter in EXPORTERS} for way in WAYS}
        keep(path, lambda partial: partial.write_text(json.dumps(tried), encoding="utf-8"))
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _tried(way: str, exporter: str) -> str:
    """Export the model with its past in this way."""
    from tests.attention import torch_export

    case = Case(Variant("llama", "sdpa", True), exporter, EXPORTERS[exporter], "fp32", True)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            if way == "flat":
                torch_export.export(case, path)
            else:
                _export(way, case, path)
        except Exception as error:  # noqa: BLE001  an exporter raises what it likes; the table shows it
            return error_text(error)
    return ""


def _export(way: str, case: Case, path: Path) -> None:
    import torch
    from transformers import Cache
    from transformers.cache_utils import DynamicCache
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    from tests.attention import torch_export
    from tests.matrix.torch_export import quiet

    class Cached(torch.nn.Module):
        """The model with its past as one argument."""

        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, words: torch.Tensor, mask: torch.Tensor, past: Any) -> Any:
            is_made = isinstance(past, Cache) or way == "pairs_to_the_model"
            cache = past if is_made else DynamicCache(list(past))
            made = self.model(input_ids=words, attention_mask=mask, past_key_values=cache, use_cache=True)
            return made.logits, [(layer.keys, layer.values) for layer in made.past_key_values.layers]

    if way == "registered_cache":
        register_dynamic_cache_export_support()
    subject = torch_export.build(case.variant, case.dtype)
    words, mask, *parts = torch_export.tensors(subject.inputs, case.dtype)
    pairs = tuple(zip(parts[::2], parts[1::2], strict=True))
    past: Any = DynamicCache(list(pairs)) if way.endswith("cache") else pairs
    free, rows = torch.export.Dim.DYNAMIC, {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    one = {0: free, 2: free}
    shapes: Any = {"cache": None, "registered_cache": [[one] * len(pairs)] * 2}.get(way, ((one, one),) * len(pairs))
    options: dict[str, Any] = {"opset_version": case.opset, "dynamo": case.exporter == "dynamo"}
    if options["dynamo"]:
        options |= {"dynamic_shapes": shapes and (rows, rows, shapes), "external_data": False, "verbose": False}
    else:
        names = list(subject.inputs)
        options |= {"input_names": names, "dynamic_axes": {name: subject.inputs[name].axes() for name in names}}
    with quiet(), torch.no_grad():
        torch.onnx.export(Cached(subject.module.model).eval(), (words, mask, past), str(path), **options)
