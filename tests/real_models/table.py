"""The one table, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from tests.real_models.costs import OURS, UNCHECKED, Cost
from tests.real_models.peers import PEERS

FOOT = """\
Seconds of processor time (user and system) of whole processes, their children included; one run each.
x slim: surgeon's by onnxslim's on the same file, in the same run.  fused: operators that stand for several nodes and
that the source did not have, as surgeon and as onnxscript's optimize_for_ort write them."""
_SHORT = {"optimize_for_ort": "for_ort"}


def table(costs: Sequence[Cost], *, latency: bool = False) -> list[str]:
    """The rows: one for each model."""
    peers = [peer for peer in PEERS if any(peer in (*cost.seconds, *cost.refused) for cost in costs)]
    heads = ["model", "nodes", "sites", OURS, UNCHECKED, *(_SHORT.get(peer, peer) for peer in peers), "x slim", "fused"]
    heads += ["latency"] * latency
    rows = [heads, ["---", "---", "---", *["--:"] * (len(heads) - 3)]]
    rows += [[*_row(cost, peers), *[cost.latency or "–"] * latency] for cost in costs]
    notes = [f"- {cost.name}, {who}: {why}" for cost in costs for who, why in cost.refused.items()]
    return [*(f"| {' | '.join(row)} |" for row in rows), *notes]


def _row(cost: Cost, peers: Sequence[str]) -> list[str]:
    times = [_seconds(cost, who) for who in (OURS, UNCHECKED, *peers)]
    return [cost.name, f"{cost.before} → {cost.after or '–'}", _sites(cost), *times, _ratio(cost), _fused(cost)]


def _seconds(cost: Cost, contender: str) -> str:
    return f"{cost.seconds[contender]:.1f}" if contender in cost.seconds else "–"


def _sites(cost: Cost) -> str:
    """How many sites were proved, and what else became of the others."""
    others = [f"{count} {outcome}" for outcome, count in sorted(cost.proofs.items()) if count and outcome != "proved"]
    return ", ".join([f"{cost.proofs['proved']} proved", *others])


def _ratio(cost: Cost) -> str:
    slim = cost.seconds.get("onnxslim")
    return f"{cost.seconds[OURS] / slim:.1f}" if slim and OURS in cost.seconds else "–"


def _fused(cost: Cost) -> str:
    return " / ".join(str(cost.fused.get(who, "–")) for who in (OURS, "optimize_for_ort"))
