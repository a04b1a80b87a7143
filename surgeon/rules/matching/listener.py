"""What a search reports to a listener: each thing that does not fit.  The listener may let the search go on past it.

The matchers of a pattern ask `state.listener is not None` where something does not fit.  Without a listener that is all
they do, so an ordinary search pays nothing for explanations.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

Continuation = Callable[[], bool]
Reason = tuple[Any, ...]  # what does not fit: the name of a kind of failure, and the values that it is about


class PatternLine(NamedTuple):
    """The operation of a pattern that reads a value; it says where in the pattern something failed."""

    where: str
    """file:line in the pattern."""
    op: str
    """Its op; "" for an output of the pattern."""
    key: int
    """Its id; 0 for an output of the pattern."""


class Listener(Protocol):
    """Hears what does not fit during one search, which finds nothing as long as it listens."""

    def fails(self, then: Continuation | None, line: PatternLine, reason: Reason) -> bool:
        """Something does not fit.

        then: goes on as if it did; None: nothing could follow.
        """

    def exact_first(self, attempt: Callable[..., bool], then: Continuation) -> bool:
        """Search the ways in which a choice fits exactly, and only if there are none, those that fail somewhere.

        attempt: takes the continuation, and `is_near` the second time.
        """
