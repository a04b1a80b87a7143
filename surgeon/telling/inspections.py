"""What is said of what is in a model."""

from surgeon.diagnosis.inspection import Inspection, size_text


def weights_text(found: Inspection) -> str:
    parts = []
    for name, sizes in (("in the file", found.inside), ("in external files", found.outside)):
        if sizes:
            detail = ", ".join(f"{dtype} {size_text(size)}" for dtype, size in sizes.items())
            parts.append(f"{size_text(sum(sizes.values()))} {name} ({detail})")
    return f"{found.tensors:,} tensors: {'; '.join(parts)}" if parts else "none"
