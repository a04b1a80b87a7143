"""Each result as blocks, which all renderers show."""

__all__ = ["edit", "explanation", "near_misses", "rule_manual", "site"]
