"""Chooses among the forms of fusions by measurement, so that a rewrite is never slower than its source."""

__all__ = ["measure"]
