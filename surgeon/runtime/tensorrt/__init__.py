"""TensorRT in a worker: compatibility of models with its parser, and engines that run."""

__all__ = ["compatibility", "engine", "error_messages", "isolated_engine", "library", "parser_tasks"]
