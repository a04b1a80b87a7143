"""Strategies of proofs: which experiments are run on a region, and which mistake each of them finds."""

__all__: list[str] = []
