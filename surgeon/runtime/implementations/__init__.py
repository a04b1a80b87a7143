"""Ops that a user implements in Python: registered, sent to a process, and called there."""

__all__ = ["implementation", "implementation_tasks", "implementation_worker"]
