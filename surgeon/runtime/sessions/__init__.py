"""One interface for what runs a model: ONNX Runtime, onnx's reference, or a child that does."""

__all__ = [
    "engine_names",
    "float16_cast",
    "float64_reference",
    "isolated_session",
    "model_session",
    "oracle",
    "ort_session",
    "provider_runtime",
    "reference_evaluator",
    "session_tasks",
    "unknown_ops",
]
