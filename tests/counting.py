"""What something costs, in counts that are the same on a slow machine and under load: no test asks a clock.

`searched` counts the work of the matcher.  `calls` counts the function calls of any other code, made in this thread;
loops without a call in them and what compiled code does inside one call are not seen.  `growth` compares the calls for
two sizes: of what takes n times the calls for n times the size the growth is 1, of a quadratic algorithm n.
"""

import gc
import sys
from collections.abc import Callable
from typing import Any

import onnx

from surgeon.rules.matching.compiler import compile_pattern
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import MatchCost
from surgeon.rules.matching.matcher import find
from surgeon.rules.tracing.tracer import trace
from tests.models import index_of


def searched(model: onnx.ModelProto, pattern: Callable[..., Any]) -> tuple[list[Match], MatchCost]:
    """All matches of a pattern in all scopes, and what it took to find them."""
    index = index_of(model)
    compiled = [compile_pattern(item) for item in trace(pattern)]
    found = [match for one in compiled for scope in index.scopes for match in find(index, one, scope)]
    return found, MatchCost.of(index)


def calls(function: Callable[[], Any]) -> int:
    """How many functions, in Python or in C, this one calls all in all."""
    count = 0

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what it frees, and when, depends on what ran before
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count


def growth(prepare: Callable[[int], Callable[[], Any]], small: int, large: int) -> float:
    """Calls for the large size over those for the small, divided by the ratio of the sizes.

    prepare: makes what is counted, for a size; making it is not counted.  Before both, the small one runs uncounted, so
    that caches are filled.
    """
    prepare(small)()
    return calls(prepare(large)) / calls(prepare(small)) / (large / small)
