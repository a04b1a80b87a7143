"""The graph that functions of rules build on: a helper for each operator and composite, lent to `gs.Graph` too."""

__all__ = ["composites", "graph", "helper_registration", "tensor_operators"]
