"""What runs a model or a part of one: ONNX Runtime, implementations in Python, onnx's evaluator, in float64 too."""
