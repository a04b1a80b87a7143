"""TensorRT-RTX in a worker: what its parser takes, and engines that run."""

__all__ = ["compatibility", "engine", "error_messages", "isolated_engine", "library", "parser_tasks"]
