"""Decoders of text: what a graph says about itself, and the folders that onnxruntime-genai reads."""
