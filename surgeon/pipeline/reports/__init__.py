"""What each kind of run reports."""

__all__ = ["edit_report", "rewrite_report", "upgrade_report"]
