"""Judge each output of proofs twice: as proofs do, and with the reference and the sensitivity for every result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from surgeon.proof.site import output_judge, site_prover
from surgeon.proof.site.output_judge import OutputJudge


@dataclass
class Verdicts:
    """What both ways said."""

    counts: Counter[str] = field(default_factory=Counter)
    """Judgements by how they ended: "equal bits", "close", "judged"."""
    unlike: list[str] = field(default_factory=list)
    """Outputs that only one way accepts."""
    doubted: list[str] = field(default_factory=list)
    """Outputs that are close to an original that is wrong itself."""


@contextmanager
def judging_twice() -> Iterator[Verdicts]:
    """Prove in this process, and judge both ways."""
    found, judge, close = Verdicts(), OutputJudge.judge, output_judge.judge_close

    def both(self: OutputJudge, name: str, *arguments: Any, **named: Any) -> Any:
        with patch.object(output_judge, "judge_close", lambda *_: None):
            eager = judge(self, name, *arguments, **named)
        ended = ["judged"]

        def noted(*asked: Any) -> Any:
            error = close(*asked)
            if error is not None:
                ended[0] = "close" if error.gap else "equal bits"
            return error

        with patch.object(output_judge, "judge_close", noted):
            lazy = judge(self, name, *arguments, **named)
        found.counts[ended[0]] += 1
        if [None if one is None else one.ok for one in (eager, lazy)] not in ([True, True], [False, False], [None] * 2):
            found.unlike.append(f"{name}: {eager} in full, {lazy} by proofs")
        elif eager is not None and lazy is not None and eager.original_error and not lazy.original_error:
            found.doubted.append(f"{name}: {eager}")
        return lazy

    with patch.object(OutputJudge, "judge", both), patch.object(site_prover, "needs_this_process", lambda _: True):
        yield found
