"""Worker processes: they start once, have limits of time and memory, and end with this process."""

__all__ = ["dataclass_json", "fork", "kill", "pipe_protocol", "worker", "worker_main", "worker_pool"]
