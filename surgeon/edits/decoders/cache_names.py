"""Names of caches by template: `past_key_values.%d.key` has the number of the layer in the place of `%d`."""

import re
from collections.abc import Mapping, Sequence

from surgeon.analysis.decoder_graph import Decoder
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.tensor_renaming import rename

CACHE_PORTS: Mapping[str, str] = {
    "past_key": "past_key_values.%d.key",
    "past_value": "past_key_values.%d.value",
    "present_key": "present.%d.key",
    "present_value": "present.%d.value",
}
"""The fields of a cache with the names that its tensors get if they have no template."""


def template_of(names: Sequence[str]) -> str | None:
    """The template of names by layer, from 0 on; None if they have none."""
    for digit in re.finditer(r"(?<!\d)0(?!\d)", names[0]):
        before, after = names[0][: digit.start()], names[0][digit.end() :]
        if "%" not in names[0] and all(name == f"{before}{layer}{after}" for layer, name in enumerate(names)):
            return f"{before}%d{after}"
    return None


def cache_templates(decoder: Decoder) -> dict[str, str | None]:
    """The template of each field of the caches; None if the names have none."""
    return {port: template_of([getattr(cache, port) for cache in decoder.caches]) for port in CACHE_PORTS}


def give_templates(draft: ModelDraft, decoder: Decoder) -> list[str]:
    """Rename the inputs and outputs of caches whose names have no template; returns their new templates.

    Raises UsageError if another tensor has one of the new names.
    """
    chosen = [CACHE_PORTS[port] for port, known in cache_templates(decoder).items() if known is None]
    names = {
        getattr(cache, port): template.replace("%d", str(layer))
        for port, template in CACHE_PORTS.items()
        if template in chosen
        for layer, cache in enumerate(decoder.caches)
    }
    for name in names.values():
        if name not in names:
            draft.require_free(name)
    if names:
        rename(draft, names)
    return chosen
