"""Every op taken apart into the ops that it stands for."""

from surgeon.target_registry import DECOMPOSED, BaseTarget, is_standard

TARGET = BaseTarget(DECOMPOSED, "ONNX", writes=(DECOMPOSED,), runs=(DECOMPOSED,), reads=is_standard)
