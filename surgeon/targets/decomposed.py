"""Every op taken apart into the ops that it stands for."""

from surgeon.target import DECOMPOSED, BaseTarget, is_standard

TARGET = BaseTarget(DECOMPOSED, "ONNX", writes=(DECOMPOSED,), runs=(DECOMPOSED,), reads=is_standard)
