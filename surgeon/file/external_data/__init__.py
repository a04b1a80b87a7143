"""Tensors that are stored outside the model's file: where they are, and what happens to them as a model is saved."""

__all__ = ["locations", "new_file", "on_demand", "repack", "self_reference", "staging"]
