"""Activations of RNN, GRU, LSTM and FusedConv by lower-case name, with their parameters.

Source: "Activation functions" in the text of LSTM in onnx.defs.  Defaults are those of the operators of the same names.
A parameter must be given if ONNX Runtime 1.31 has another default (0 for Affine, ScaledTanh, ThresholdedRelu), or if no
operator has one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from surgeon.runtime.kernels.aten import sigmoid
from surgeon.runtime.kernels.erf import Array


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation function of a recurrent operator."""

    function: Callable[..., Array]
    """Function of an array and the parameters alpha and beta."""
    defaults: tuple[float | None, ...] = ()
    """Default of each parameter; None for one that must be given."""

    def bound(self, numbers: Sequence[float | None]) -> Callable[[Array], Array]:
        """Return the function with these parameters; None and omitted ones get their defaults.

        Raises ValueError for a parameter that must be given.
        """
        given = (*numbers, *(None for _ in self.defaults))
        settled = [default if number is None else number for number, default in zip(given, self.defaults, strict=False)]
        if None in settled:
            raise ValueError("an activation has no alpha or beta, and ONNX Runtime's defaults are not the standard's")
        return lambda x: self.function(x, *settled).astype(x.dtype)


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


ACTIVATIONS: dict[str, Activation] = {
    "affine": Activation(lambda x, alpha, beta: alpha * x + beta, (None, 0.0)),
    "elu": Activation(_elu, (1.0,)),
    "hardsigmoid": Activation(_hard_sigmoid, (float(np.float32(0.2)), 0.5)),
    "identity": Activation(lambda x: x),
    "leakyrelu": Activation(lambda x, alpha: np.where(x < 0, alpha * x, x), (float(np.float32(0.01)),)),
    "relu": Activation(lambda x: np.maximum(x, 0)),
    "scaledtanh": Activation(lambda x, alpha, beta: alpha * np.tanh(beta * x), (None, None)),
    "sigmoid": Activation(sigmoid),
    "softplus": Activation(lambda x: np.logaddexp(0, x)),
    "softsign": Activation(lambda x: x / (1 + np.abs(x))),
    "tanh": Activation(np.tanh),
    "thresholdedrelu": Activation(lambda x, alpha: np.where(x > alpha, x, 0), (None,)),
}


def activation(name: str) -> Activation:
    """Return an activation by its name, in any case.  Raises ValueError for an unknown one."""
    found = ACTIVATIONS.get(name.lower())
    if found is None:
        raise ValueError(f"unknown activation '{name}'")
    return found
