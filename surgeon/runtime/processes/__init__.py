"""Worker processes: started once, limited in time and memory, and ended with this process."""

__all__ = ["dataclass_json", "fork", "kill", "pipe_protocol", "worker", "worker_main", "worker_pool"]
