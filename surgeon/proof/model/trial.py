"""One set of inputs, and what an original makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surgeon.runtime.inputs.input_generator import ValueKind


@dataclass(slots=True, eq=False)
class Trial:
    """One set of inputs, what the original made of it, and the outputs that a second run did not repeat.

    sizes: of the free dimensions, empty where the user gave the inputs.  kind: of the values that were made.  wide:
    these are of wide range, and only what is finite in the original is compared.  source: where the user's inputs came
    from, empty for made ones.  words: of what kind they are, where `kind` does not say.  calm: sets of inputs on which
    noise is measured in the place of these, where these are such as the last bit decides at.  apart: a difference on
    these is told apart, and does not make the two models differ.
    """

    feeds: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    unstable: list[str]
    sizes: Mapping[str, int]
    kind: ValueKind = ValueKind.USUAL
    wide: bool = False
    source: str = ""
    words: str = ""
    calm: Sequence[Mapping[str, np.ndarray]] = ()
    apart: bool = False

    @property
    def told(self) -> str:
        """What inputs these are, as it is said in a sentence."""
        return f"the inputs of {self.source}" if self.source else self.words or f"{self.kind.description} inputs"
