"""The claims of an edited model about its original."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np


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
    """Outputs that may depend on several samples at once.  Beyond the old size, nothing is claimed about them."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A value that is computed from others."""

    sources: tuple[str, ...]
    """Names in the claim (`ModelClaim.original`) of the values it is computed from.

    An input of the original is computed from inputs of the edited model, an output of the edited model from tensors of
    the original.
    """
    change: Callable[..., np.ndarray]
    """Function of their arrays, in this order."""


@dataclass(slots=True)
class ModelClaim:
    """The claims of an edited model about its original: the correspondence of inputs, and the sources of outputs."""

    tensors: dict[str, str] = field(default_factory=dict)
    """By renamed tensor of the edited model, its name in the original."""
    sizes: dict[str, int] = field(default_factory=dict)
    """By name, sizes of dims of the original's inputs that the edited model fixes."""
    made: dict[str, Derived] = field(default_factory=dict)
    """By input of the original, how its value is computed from inputs of the edited model."""
    answers: dict[str, Derived] = field(default_factory=dict)
    """By output of the edited model that is not a tensor of the original, how it is computed from such tensors."""
    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By dynamic dim that is renamed or declared equal to others, the names of these in the original."""
    freed: list[DynamicDimsClaim] = field(default_factory=list)
    """Sizes that the original fixes and the edited model does not."""
    by_structure: bool = True
    """Whether the nodes of both have to be the same, apart from names."""
    decodes: bool = False
    """Whether the edited model only has to decode as the original: in steps, each sequence of a padded batch."""
    untold: str = ""
    """Why nothing can be claimed about the edited model, as a sentence; empty if something can."""
    beyond: str = ""
    """Why outputs may differ on some inputs, as a sentence: a difference is then unproved instead of failed."""

    def original(self, name: str) -> str:
        """The name in the original of a tensor of the edited model."""
        return self.tensors.get(name, name)

    def make(self, source: str, sources: tuple[str, ...], change: Callable[..., np.ndarray]) -> None:
        """State that a former input of the edited model is computed from others, by names of the claim."""
        earlier = {name: how for name, how in self.made.items() if source in how.sources}
        if not earlier:
            self.made[source] = Derived(sources, change)
        for name, how in earlier.items():
            place = how.sources.index(source)
            self.made[name] = Derived(
                (*how.sources[:place], *sources, *how.sources[place + 1 :]),
                _composed(how.change, place, len(sources), change),
            )

    def answer(self, name: str, sources: tuple[str, ...], change: Callable[..., np.ndarray]) -> None:
        """State that a new output is computed from tensors of the original or earlier outputs, by the claim's names."""
        made = Derived(sources, change)
        for source in sources:
            earlier = self.answers.get(source)
            if earlier is not None:
                place = made.sources.index(source)
                rest = made.sources[place + 1 :]
                change = _composed(made.change, place, len(earlier.sources), earlier.change)
                made = Derived((*made.sources[:place], *earlier.sources, *rest), change)
        self.answers[name] = made


def _composed(
    outer: Callable[..., np.ndarray], place: int, count: int, inner: Callable[..., np.ndarray]
) -> Callable[..., np.ndarray]:
    """`outer`, with the argument at `place` computed by `inner` from `count` arguments there."""

    def both(*arrays: np.ndarray) -> np.ndarray:
        return outer(*arrays[:place], inner(*arrays[place : place + count]), *arrays[place + count :])

    return both
