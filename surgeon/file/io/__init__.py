"""Operating system files: atomic writes, fast copies, memory maps, path encodings, and file types."""

__all__ = ["atomic_file", "cache_folder", "file_copy", "file_type", "memory_map", "path_encoding"]
