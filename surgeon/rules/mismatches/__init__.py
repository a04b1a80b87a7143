"""Why a pattern does not match: the first node that differs, and what would have to change."""

__all__ = ["candidate_roots", "furthest_failure", "mismatch", "model_fixes", "node_failures"]
