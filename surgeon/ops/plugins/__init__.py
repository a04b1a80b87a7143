"""Plugins of TensorRT as ops: those that come with it, and those that a user declares."""

__all__ = ["builtin_plugins", "plugin_declaration"]
