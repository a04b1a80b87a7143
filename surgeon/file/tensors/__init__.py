"""The values of stored tensors: decoded, compared and cast without loading the whole model."""

__all__ = ["casting", "content_equality", "decoding"]
