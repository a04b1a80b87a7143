"""A quantised tensor, and what ONNX Runtime's operators make of it."""

from collections.abc import Callable
from typing import Any

from surgeon import Captures, Graph, Tensor


class QLinearUnary(Captures):
    """A quantised tensor and what is made of it, each with its scale and its zero point."""

    x: Tensor
    x_scale: Tensor
    x_zero: Tensor | Any = None
    y_scale: Tensor
    y_zero: Tensor | Any = None
    attributes: dict[str, Any]

    def between(self, g: Graph, function: Callable[..., Tensor], **attributes: Any) -> Tensor:
        """A function of the floats that x stands for, quantised."""
        floats = g.dequantize_linear(self.x, self.x_scale, self.x_zero)
        return g.quantize_linear(function(floats, **attributes), self.y_scale, self.y_zero)


def qlinear_pattern(name: str) -> Callable[[Graph, QLinearUnary], Tensor]:
    """The pattern of a function of ONNX Runtime's."""

    def pattern(g: Graph, m: QLinearUnary) -> Tensor:
        made: Tensor = getattr(g, name)(m.x, m.x_scale, m.x_zero, m.y_scale, m.y_zero, **m.attributes)
        return made

    pattern.__doc__ = f"{name}."
    return pattern
