"""Strategies of proofs: which experiments are run on a region, and which mistake each of them finds."""

__all__ = ["case_feeds", "models", "region_facts", "rows", "site_strategies", "strategy", "values"]
