"""Ranges and errors, measured by runs."""

__all__ = ["baseline_runs", "range_instrumentation"]
