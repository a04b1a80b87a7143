"""Every op decomposed into simpler ops."""

from surgeon.target_registry import DECOMPOSED, BaseTarget, is_standard

TARGET = BaseTarget(DECOMPOSED, "ONNX", writes=(DECOMPOSED,), runs=(DECOMPOSED,), reads=is_standard)
