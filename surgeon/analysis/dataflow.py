"""Dataflow analysis: facts about tensors, solved on demand.

An analysis is one equation: the fact of a tensor, from the facts of others.  A forward analysis asks about the tensors
that a tensor is computed from, a backward analysis about those that are computed from it.  `ir.edges` has both.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from surgeon.ir.edges import Tensor

F = TypeVar("F")
MOST = 1 << 22  # maximum number of tensors of one analysis


class Dataflow(ABC, Generic[F]):
    """The facts of one analysis; `analysis[tensor]` solves the equations that it depends on.

    bottom: the fact of a tensor before anything is known.  most: maximum number of tensors to look at.  beyond: the
    fact of any other tensor.
    """

    def __init__(self, bottom: F, *, most: int = MOST, beyond: F | None = None) -> None:
        self._bottom, self._most, self._beyond = bottom, most, bottom if beyond is None else beyond
        self._facts: dict[Tensor, F] = {}
        self._readers = defaultdict[Tensor, dict[Tensor, None]](dict)  # whose facts depend on it

    @abstractmethod
    def equation(self, tensor: Tensor, fact: Callable[[Tensor], F]) -> F:
        """The fact of a tensor.  It must be monotone in the facts that it reads, and must not grow forever."""

    @abstractmethod
    def join(self, one: F, other: F) -> F:
        """The smallest fact that covers both."""

    def __getitem__(self, wanted: Tensor) -> F:
        pending = {} if wanted in self._facts else {wanted: None}
        tensor = wanted

        def fact(other: Tensor) -> F:
            self._readers[other][tensor] = None
            if other not in self._facts:
                if len(self._facts) >= self._most:
                    return self._beyond
                self._facts[other] = self._bottom
                pending[other] = None
            return self._facts[other]

        while pending:
            tensor, _ = pending.popitem()
            known = self._facts.setdefault(tensor, self._bottom)
            found = self.join(known, self.equation(tensor, fact))
            if found != known:
                self._facts[tensor] = found
                pending.update(self._readers[tensor])
        return self._facts[wanted]

    def path(self, ends: Iterable[Tensor], follows: Callable[[F], bool]) -> list[Tensor]:
        """Some tensors, and all tensors that their facts depend on."""
        pending, found = list(ends), dict[Tensor, None]()

        def fact(other: Tensor) -> F:
            if other in self._facts:
                pending.append(other)
            return self._facts.get(other, self._beyond)

        while pending:
            tensor = pending.pop()
            if tensor not in found and follows(self[tensor]):
                found[tensor] = None
                self.equation(tensor, fact)
        return list(found)
