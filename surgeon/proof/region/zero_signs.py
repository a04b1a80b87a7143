"""Outputs of a region of which a consumer reads the sign of zeros: one over -0 is minus infinity."""

from surgeon.ir.divisors import divides
from surgeon.proof.region.region import Region


def sign_sensitive_outputs(region: Region) -> frozenset[str]:
    """The outputs of a region, by their names in the source, that a node divides by."""
    return frozenset(old for old, new in region.outputs if any(divides(region.scope, name) for name in {old, new}))
