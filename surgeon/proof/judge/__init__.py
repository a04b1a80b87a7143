"""When a difference between two results is an error."""

__all__ = ["common_nodes", "common_prefix", "error_summary", "exemptions", "kernel_errors"]
