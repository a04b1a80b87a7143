"""Tensors stored outside the model's file: how they are found, read and saved."""

__all__ = ["held_tensors", "locations", "new_file", "on_demand", "repack", "self_reference", "staging"]
