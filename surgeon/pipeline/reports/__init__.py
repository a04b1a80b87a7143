"""The results of runs, rewrites, edits and upgrades, as data."""

__all__ = ["component_reports", "edit_report", "measurement", "report", "rewrite_report", "site", "upgrade_report"]
