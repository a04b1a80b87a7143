"""Plugins of TensorRT as ops: built-in ones, and those that a user declares."""

__all__ = ["builtin_plugins", "plugin_declaration"]
