"""Folders of decoders that onnxruntime-genai runs: scores, names of caches, the configuration, the files."""

__all__ = ["decoder_folder", "last_logits", "rotary_in_attention", "sequence_sizes"]
