"""The one table, in Markdown, and the models on which a peer is better, each with a reason."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from tests.peer_suites.judging import Verdict

REASONS = Path(__file__).with_name("reasons.toml")
OUTCOMES = ("equal", "approximate", "peer is wrong", "identity", "worse", "wrong", "stopped", "crashed", "refused")
HEADS = (
    *("suite", "models", "as good or better", "with --approximate", "peer is wrong", "an Identity more"),
    *("peer is better", "of these by design", "share of the others", "wrong", "stopped", "crashed", "refused"),
    "original does not run",
)
BY_DESIGN = "By design: "  # what a reason begins with if surgeon leaves such nodes on purpose
MOST = 0.05  # of a suite's models may the peer be better
FOOT = """\
As good or better: no more nodes than the peer leaves, or as many of each op that stands for several nodes.  Peer is
wrong: it leaves fewer nodes, but ONNX Runtime computes something else.  By design: what ONNX Runtime does with any
model when it loads it, such as FusedConv, what changes results, and what is slower.  Stopped: an error of one rule
ended the run."""


def table(found: Mapping[str, Sequence[Verdict]]) -> list[str]:
    """The rows: one for each suite."""
    rows = [HEADS, ("---", *["--:"] * (len(HEADS) - 1))]
    for name, verdicts in found.items():
        counts = Counter(verdict.outcome for verdict in verdicts)
        numbers = [str(counts[outcome]) for outcome in OUTCOMES]
        unverified = sum(verdict.unverified for verdict in verdicts)
        designed = str(counts["worse"] - worse_count(name, verdicts))
        share = f"{worse_count(name, verdicts) / max(1, len(verdicts)):.1%}"
        rows.append((name, str(len(verdicts)), *numbers[:5], designed, share, *numbers[5:], str(unverified)))
    return [f"| {' | '.join(row)} |" for row in rows]


def worse_count(name: str, verdicts: Sequence[Verdict]) -> int:
    """On how many models the peer is better, those left out that surgeon leaves so by design."""
    reasons = known_reasons()
    worse = [verdict for verdict in verdicts if verdict.outcome == "worse"]
    return sum(not reason(reasons, name, verdict).startswith(BY_DESIGN) for verdict in worse)


@cache
def known_reasons() -> Mapping[str, Mapping[str, str]]:
    """By suite and pattern for tests, why the peer may be better."""
    return tomllib.loads(REASONS.read_text(encoding="utf-8"))


def faults(found: Mapping[str, Sequence[Verdict]]) -> list[str]:
    """Wrong results, runs that ended early, and models on which the peer is better without a reason or too often."""
    reasons = known_reasons()
    lines = []
    for name, verdicts in found.items():
        for verdict in verdicts:
            if verdict.outcome in ("wrong", "stopped", "crashed"):
                lines.append(f"{name}, {verdict.test}: {verdict.outcome}: {verdict.text}")
            elif verdict.outcome == "worse" and not reason(reasons, name, verdict):
                lines.append(f"{name}, {verdict.test}: no reason for {verdict.nodes[1:]}: {verdict.text}")
        share = worse_count(name, verdicts) / max(1, len(verdicts))
        if share > MOST:
            lines.append(f"{name}: the peer is better on {share:.1%}, {MOST:.0%} may be")
    return lines


def reason(reasons: Mapping[str, Mapping[str, str]], suite: str, verdict: Verdict) -> str:
    """Why a peer may be better on a model, by a pattern for its test; "" where nobody has said so."""
    patterns = reasons.get(suite, {})
    return next((text for pattern, text in patterns.items() if fnmatchcase(verdict.test, pattern)), "")


def explained(found: Mapping[str, Sequence[Verdict]]) -> list[str]:
    """How often each reason holds."""
    reasons = known_reasons()
    counts = Counter(
        (name, reason(reasons, name, verdict))
        for name, verdicts in found.items()
        for verdict in verdicts
        if verdict.outcome == "worse"
    )
    return [f"- {name}, {count}: {text}" for (name, text), count in counts.items() if text]
