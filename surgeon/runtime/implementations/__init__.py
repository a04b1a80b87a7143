"""Python implementations of operators: registered, sent to a worker, and called there."""

__all__ = ["implementation", "implementation_tasks", "implementation_worker"]
