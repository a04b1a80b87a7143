"""What runs, rewrites, edits and upgrades did, as data."""

__all__ = ["edit_report", "report", "rewrite_report", "site", "upgrade_report"]
