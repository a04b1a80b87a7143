"""All strategies for regions, in the order in which they take turns."""

from surgeon.proof.strategies import roles, sizes, values, weights
from surgeon.proof.strategies.strategy import STRATEGIES

_BY_MODULE = [
    [item for item in STRATEGIES.values() if item.propose.__module__ == module.__name__]
    for module in (values, roles, weights, sizes)
]
SIZE_STRATEGIES = _BY_MODULE[-1]
SITE_STRATEGIES = [item for strategies in _BY_MODULE for item in strategies]
