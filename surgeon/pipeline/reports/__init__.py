"""What rewrites, edits and upgrades did, as data."""

__all__ = ["edit_report", "rewrite_report", "site", "upgrade_report"]
