"""Ops as numpy formulas, where onnx's reference has none or a wrong one."""

__all__ = ["arithmetic", "aten", "data_movement", "kernel_registry", "vision"]
