"""Folders of decoders that onnxruntime-genai runs: the names of caches, the configuration, and the files."""

__all__ = ["decoder_folder"]
