"""What is claimed of sizes that an edit freed: of which inputs, which outputs follow, and how that can be held."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Freed:
    """A size that was fixed and is free now.

    Tensors go by the original's names.

    Attributes:
        name: of the free dimension.
        old: the size that it had.
        feeds: the axes of inputs that have it.
        answers: by output, its axis where it is made place by place along what is free, so that outputs of the original
            laid end to end are what the edited model answers to inputs laid end to end; None where it does not follow.
        mixed: outputs of which more than one place is seen at once: beyond the old size nothing stands beside them.
    """

    name: str
    old: int
    feeds: Mapping[str, int]
    answers: Mapping[str, int | None]
    mixed: tuple[str, ...]
