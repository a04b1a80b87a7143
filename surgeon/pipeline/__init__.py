"""From a model and a request to a checked file: rewriting, edits and upgrades, acceptance, and reports.

This package must not import single edits, conversions or commands.  Start with `transform.py` and `driver.py`, then
`rewriting/rule_set.py` and `rewriting/greedy_driver.py`.
"""

__all__ = [
    "acceptance",
    "checks",
    "component_runs",
    "driver",
    "editing",
    "reports",
    "rewriting",
    "snapshot",
    "transform",
    "upgrading",
]
