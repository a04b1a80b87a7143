"""Each result as blocks, which all renderers show."""

__all__ = ["check", "edit", "explanation", "near_misses", "rule_manual", "site"]
