"""Applies rules to a model, proves each site, and writes the result."""

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
