"""What must hold for each work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.benchmarks.measure import Result

Results = Mapping[str, Result]
PROVED = "surgeon, every site proved"
GELU_ALONE, ALL_RULES, SECOND_RUN = "the rules for GELU", "all rules", "all rules, over their own result"


@dataclass(frozen=True)
class Bar:
    """One thing that must hold, with the figure measured."""

    text: str
    figure: str
    held: bool


def many_nodes(results: Results) -> Iterator[Bar]:
    """120,000 nodes: a quarter of the peers' time, two thirds of their memory; and the proof on top."""
    surgeon = results["surgeon"]
    yield from proof(results)
    for peer in ("onnxscript", "gs"):
        faster = results[peer].times(surgeon)
        yield Bar(f"at least 4x faster than {peer}", f"{faster:.1f}x", faster >= 4)
        share = surgeon.megabytes / results[peer].megabytes
        yield Bar(f"peak memory under two thirds of {peer}'s", f"{share:.2f}", share < 2 / 3)


def proof(results: Results) -> Iterator[Bar]:
    """Proving every site costs less than the rewrite itself."""
    surgeon = results["surgeon"]
    beyond = results[PROVED].beyond(surgeon)
    yield Bar("proof in less time than the rewrite", f"{beyond:+.2f} s", beyond < surgeon.seconds)


def large(results: Results) -> Iterator[Bar]:
    """100 GB of weights: a proof reads none of them."""
    proved = results[PROVED]
    yield Bar("proved within 5 seconds", f"{proved.seconds:.2f} s", proved.seconds < 5)
    yield Bar("peak memory under 500 MB", f"{proved.megabytes:.0f} MB", proved.megabytes < 500)


def big(results: Results) -> Iterator[Bar]:
    """1.7 GB of weights inside the file: they are copied by the kernel."""
    peak, beyond = results["surgeon"].megabytes, results["surgeon"].beyond(results["cp + fsync"])
    yield Bar("peak memory under 200 MB", f"{peak:.0f} MB", peak < 200)
    yield Bar("at most 1 s beyond cp + fsync", f"{beyond:+.2f} s", beyond <= 1)


def sparse(results: Results) -> Iterator[Bar]:
    """20 GB of external data, all of it a hole: not read at all."""
    seconds = results["surgeon"].seconds
    yield Bar("under a second", f"{seconds:.2f} s", seconds < 1)


def all_rules(results: Results) -> Iterator[Bar]:
    """All rules share one index; what has nothing to do costs little."""
    gelu, every, second = (results[name] for name in (GELU_ALONE, ALL_RULES, SECOND_RUN))
    ratio = every.times(gelu)
    yield Bar("all rules at most 3x the rules for GELU", f"{ratio:.2f}x", ratio <= 3)
    share = second.times(every)
    yield Bar("over their own result less than the first time", f"{share:.2f}x", share < 1)


def growth(results: Results) -> Iterator[Bar]:
    """Ten times the nodes: at most twelve times the time of the whole process, nothing subtracted."""
    for small, large in (("n2000", "n20000"), ("n20000", "n200000")):
        ratio = results[large].times(results[small])
        yield Bar(f"{large} at most 12x the time of {small}", f"{ratio:.1f}x", ratio <= 12)


BARS: dict[str, Callable[[Results], Iterator[Bar]]] = {
    "n20000": many_nodes,
    "big": big,
    "sparse": sparse,
    "hundred": large,
    "growth": growth,
    "rules": all_rules,
}
