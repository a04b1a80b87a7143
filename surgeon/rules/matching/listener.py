"""The reports of a search to a listener: each difference.  The listener may let the search go on past it.

The matchers of a pattern check `state.listener is not None` if something does not fit.  Without a listener that is all
they do, so an ordinary search pays nothing for explanations.
"""

from collections.abc import Callable
from typing import Any, Protocol

from surgeon.rules.matching.pattern import NodePattern

Continuation = Callable[[], bool]
Reason = tuple[Any, ...]  # a difference: the name of a kind of failure, and its values


class Listener(Protocol):
    """Hears what does not fit during one search."""

    def fails(self, then: Continuation | None, reader: NodePattern | None, reason: Reason) -> bool:
        """Something does not fit.

        then: goes on as if it did; None: nothing could follow.  reader: the operation of the pattern that requires it;
        None: an output of the pattern.
        """

    def exact_first(self, attempt: Callable[..., bool], then: Continuation) -> bool:
        """Search the ways in which a choice fits exactly, and only if there are none, those that fail somewhere.

        attempt: takes the continuation, and `is_near` the second time.
        """
