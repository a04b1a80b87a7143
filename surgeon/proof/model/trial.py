"""One set of inputs with the outputs of an original, and notes on several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

USUAL = "usual"
"""Name of the strategy of usual inputs."""


@dataclass(slots=True, eq=False)
class Trial:
    """One set of inputs with the outputs of the original."""

    feeds: dict[str, np.ndarray]
    """Arrays by input name."""
    outputs: dict[str, np.ndarray]
    """The original's outputs by name."""
    unstable: list[str]
    """Outputs that a second run did not repeat."""
    sizes: Mapping[str, int]
    """Sizes of the dynamic dims; empty if the user gave the inputs."""
    strategy: str = USUAL
    """Name of the strategy that proposed the inputs."""
    wide: bool = False
    """Values of wide range: only elements that are finite in the original are compared."""
    source: str = ""
    """The source of the user's inputs; "" for generated ones."""
    decides: bool = False
    """Whether results jump exactly at these inputs, so that noise is measured near them."""
    informational: bool = False
    """Report a difference on these inputs separately; it does not make the check fail."""

    @property
    def description(self) -> str:
        """The kind of the inputs, for a message."""
        kind = f"{self.strategy} inputs" if self.strategy == USUAL else self.strategy
        return f"the inputs from {self.source}" if self.source else kind


@dataclass(slots=True)
class TrialNotes:
    """Limits of the runs of an original."""

    unavailable_because: str = ""
    """Why no trials exist, as a sentence; "" if they do."""
    oracle: str = ""
    """The runtime of the original; "" if there is none."""
    excluded_because: str = ""
    """Why a set of wide-ranging inputs is not informative, as a clause; "" if all are."""
    refused: str = ""
    """One sentence on user's inputs that the original does not run on; "" if it runs on all."""
    refusal: str = ""
    """Why the original refused the first generated inputs that it refused."""
    unvisited_tables: Sequence[str] = ()
    """Tables that differ from the other model's, and of which rows may not have been looked up."""
