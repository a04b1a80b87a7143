"""The texts of a model summary."""

from collections.abc import Iterator

from surgeon.targets.inspection.model_summary import Inspection, size_text

LONGEST = 200  # characters of a header text on a screen


def header_lines(found: Inspection) -> Iterator[tuple[str, str]]:
    """The header's texts by field, and the metadata by key; long texts are shortened."""
    for title, texts in (("about", found.about), ("metadata", found.metadata)):
        for place, (name, text) in enumerate(texts.items()):
            line = " ".join(text.split())
            more = f"... ({len(text):,} characters; --json has all)" if len(line) > LONGEST else ""
            yield "" if place else title, f"{name}: {line[:LONGEST]}{more}"


def weights_text(found: Inspection) -> str:
    parts = []
    for name, sizes in (("in the file", found.inside), ("in external files", found.outside)):
        if sizes:
            detail = ", ".join(f"{dtype} {size_text(size)}" for dtype, size in sizes.items())
            parts.append(f"{size_text(sum(sizes.values()))} {name} ({detail})")
    return f"{found.tensors:,} tensors: {'; '.join(parts)}" if parts else "none"
