"""Tensors stored outside the model's file: where they are, and how they are saved."""

__all__ = ["locations", "new_file", "on_demand", "repack", "self_reference", "staging"]
