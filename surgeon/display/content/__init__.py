"""Each result as blocks, which all renderers show."""

__all__ = ["edit", "near_misses", "rule_manual", "site"]
