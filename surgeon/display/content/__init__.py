"""The texts of each result, as sentences and lines for all renderers."""

__all__ = [
    "bench",
    "check",
    "comparison",
    "conversion",
    "diff",
    "edit",
    "explanation",
    "inspection",
    "near_misses",
    "rewrite",
    "rule_manual",
]
