"""What is claimed of sizes that an edit made dynamic: of which inputs, and which outputs keep samples independent."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DynamicDimsClaim:
    """A size that the original fixes and the edited model does not.

    Tensors go by the original's names.

    Attributes:
        name: of the dynamic dim.
        old: the size that it had.
        feeds: the axes of inputs that have it.
        answers: outputs that keep samples independent: each sample of theirs is the original's answer to that sample.
        mixed: outputs that may depend on several samples at once.  Nothing is claimed of them beyond the old size.
    """

    name: str
    old: int
    feeds: Mapping[str, int]
    answers: tuple[str, ...]
    mixed: tuple[str, ...]
