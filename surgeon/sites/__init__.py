"""Proof that a rewrite changed the model's form and not its meaning.  ONNX Runtime is loaded when a check runs."""
