"""The contents of a model: its size, its ops, its blocks, and the modules that its nodes come from."""

__all__ = ["model_summary", "outline", "provenance"]
