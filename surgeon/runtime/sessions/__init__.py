"""One interface for the engines that run models: ONNX Runtime, onnx's reference, or a worker with either."""

__all__ = [
    "engine_names",
    "ep_library",
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
