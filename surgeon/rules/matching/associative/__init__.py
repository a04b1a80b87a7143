"""Chains of sums and products, matched in any order."""

__all__ = ["chain", "chain_matcher", "flattening", "identities"]
