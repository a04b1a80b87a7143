"""Results printed to a terminal."""

__all__ = ["console", "fleet", "inspection", "rewrite", "rule_manual", "rule_proof", "sanitise"]
