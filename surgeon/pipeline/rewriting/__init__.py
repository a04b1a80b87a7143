"""Rules applied to a model, each site proved, and the result written."""

__all__ = [
    "driver_settings",
    "greedy_driver",
    "rewrite",
    "rewrite_settings",
    "rule_run",
    "site_regions",
    "unknown_names",
    "verification",
]
