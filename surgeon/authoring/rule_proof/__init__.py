"""A rule proved without a model: instances of its pattern over ranks, dtypes, opsets and sizes."""

__all__ = ["prover", "result"]
