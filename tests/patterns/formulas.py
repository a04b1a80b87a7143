"""Rules for operators that no runtime here has: what they are held against."""

from dataclasses import replace

from surgeon.testing import Case, check_fires


def check_by_formula(case: Case) -> None:
    """Assert that the rules fire, and that each site is proved by the formula of what no runtime has."""
    report = check_fires(replace(case, check="sites"))
    assert report.proofs[0].independent
