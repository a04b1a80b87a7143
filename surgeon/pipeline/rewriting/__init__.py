"""Rules applied to a model, each site proved, and the result written."""

__all__ = [
    "driver_settings",
    "greedy_driver",
    "rewrite",
    "rollback",
    "rule_run",
    "rule_set",
    "site_regions",
    "unknown_names",
]
