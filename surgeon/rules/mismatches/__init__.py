"""Why a pattern does not match: the first node that differs, and the change that would fix it."""

__all__ = ["candidate_roots", "furthest_failure", "mismatch", "model_fixes", "node_failures"]
