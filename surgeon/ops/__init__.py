"""What each operator takes and gives at each opset, from the schemas of ONNX and ONNX Runtime."""
