"""Files and object stores, and the lock of a target."""

__all__ = ["sparse_file", "storage", "target_lock"]
