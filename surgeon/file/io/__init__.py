"""Files of the operating system: atomic writes, fast copies, maps, names that are not UTF-8, and what a file is."""

__all__ = ["atomic_file", "file_copy", "file_type", "memory_map", "path_encoding"]
