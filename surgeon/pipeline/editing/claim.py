"""What an edit claims about a size that it makes dynamic."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DynamicDimsClaim:
    """A size that the original fixes and the edited model does not.

    Tensors have the names of the original.
    """

    name: str
    """Name of the dynamic dim."""
    old: int
    """Size in the original."""
    feeds: Mapping[str, int]
    """By input, the axis of that size."""
    answers: tuple[str, ...]
    """Outputs that keep samples independent: each sample equals the original's output for that sample."""
    mixed: tuple[str, ...]
    """Outputs that may depend on several samples at once. Beyond the old size nothing is claimed of them."""
