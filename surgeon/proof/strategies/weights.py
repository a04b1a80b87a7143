"""Strategies of weights that are too large to read, so that they are generated."""

from collections.abc import Iterator

from surgeon.proof.strategies.region_facts import CaseRegion
from surgeon.proof.strategies.strategy import InputCase, strategy
from surgeon.runtime.inputs.float_fills import CONSTANT, NON_FINITE, ZEROS_AND_ONES


@strategy(
    "weights",
    because="a rule relies on weights that are not zero, not NaN or not constant, as those of masks and scales are",
)
def weights(region: CaseRegion) -> Iterator[InputCase]:
    """Weights of zeros and ones, of constant rows, and with NaN and infinity, with usual inputs."""
    names = [spec.name for spec in region.weights if spec.takes_edge_values]
    yield from region.single(region.for_all(names, [ZEROS_AND_ONES._replace(kinds=()), CONSTANT, NON_FINITE]))
