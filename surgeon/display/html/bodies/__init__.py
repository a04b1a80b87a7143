"""The HTML body of each kind of result."""

__all__ = [
    "authoring",
    "bench",
    "check",
    "conversion",
    "diff",
    "edit",
    "explanation",
    "fleet",
    "inspection",
    "rewrite",
    "rule_manual",
]
