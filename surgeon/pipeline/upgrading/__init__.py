"""A newer opset for a whole model, or for the nodes of one replacement."""

__all__ = ["declared_opset", "upgrade"]
