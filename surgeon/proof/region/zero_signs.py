"""The signs of zeros that a region hands on to what divides by them: one over -0 is minus infinity."""

from surgeon.ir.divisors import divides
from surgeon.proof.region.region import Region


def sign_sensitive_outputs(region: Region) -> frozenset[str]:
    """The outputs of a region, by their names in the source, that something divides by as it stands now."""
    return frozenset(old for old, new in region.outputs if any(divides(region.scope, name) for name in {old, new}))
