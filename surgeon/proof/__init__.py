"""Whether two models, or a region before and after a rewrite, compute the same.

It generates inputs, runs both sides and judges the results. It knows neither drivers nor edits, so it must not import
`pipeline` or anything above.  Start with `site_proof.py`, `region/region.py` and `judge/exemptions.py`.
"""

__all__ = [
    "cache",
    "check_options",
    "check_result",
    "compare",
    "counterexample",
    "model",
    "proof_case",
    "region",
    "site",
    "site_proof",
]
