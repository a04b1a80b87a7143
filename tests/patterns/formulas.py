"""Rules for operators that no runtime here has: a formula of their own is what they are compared with."""

from dataclasses import replace

from surgeon.testing import Case, check_fires


def check_by_formula(case: Case) -> None:
    """Assert that the rules fire, and that the formula of what no runtime has proves each site, if it is to be proved.
    """
    report = check_fires(replace(case, check="sites") if case.check else case)
    assert not case.check or report.proofs[0].independent
