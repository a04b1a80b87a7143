"""RNN, GRU and LSTM as numpy formulas: inputs are projected for all steps at once, states step by step.

Source: the texts of the operators in onnx.defs, and ONNX Runtime 1.31 for cases that they leave open (outputs after the
end of a sequence, the order of alphas and betas).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array
from surgeon.runtime.kernels.rnn_activations import activation

States = tuple[Array, ...]
Cell = Callable[..., States]
"""From one step's projected inputs [B, gates·H] and the states [B, H] to the next states; the first is the output."""
Functions = Sequence[Callable[[Array], Array]]
_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


@dataclass(frozen=True, slots=True)
class _Weights:
    """The weights of one direction."""

    inputs: Array
    """Weights of the input, [gates·H, I]."""
    states: Array
    """Weights of the state, [gates·H, H]."""
    bias: Array
    """Biases of both, [2·gates·H]."""
    peepholes: Array | None
    """Peephole weights, [3·H]."""

    @property
    def both(self) -> Array:
        """The sum of the biases of inputs and states, [gates·H]."""
        return np.add(*np.split(self.bias, 2))


def rnn(
    x: Array,
    weight: Array,
    recurrence: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    first: Array | None = None,
    **settings: Any,
) -> States:
    """RNN: Y and Y_h.  See `_run` for shapes and settings."""

    def cell(weights: _Weights, functions: Functions, clip: Callable[[Array], Array]) -> tuple[Array, Cell]:
        def step(given: Array, hidden: Array) -> States:
            return (functions[0](clip(given + hidden @ weights.states.T)),)

        return weights.both, step

    return _run("RNN", cell, (x, weight, recurrence, bias), lengths=lengths, firsts=(first,), **settings)


def gru(
    x: Array,
    weight: Array,
    recurrence: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    first: Array | None = None,
    *,
    linear_before_reset: int = 0,
    **settings: Any,
) -> States:
    """GRU, with gates in the order z, r, h: Y and Y_h.  See `_run` for shapes and settings."""

    def cell(weights: _Weights, functions: Functions, clip: Callable[[Array], Array]) -> tuple[Array, Cell]:
        size = weights.states.shape[1]
        gates, candidate = weights.states[: 2 * size].T, weights.states[2 * size :].T
        own, beside = np.split(weights.bias, 2)
        inner = beside[2 * size :]  # the candidate's bias; with linear_before_reset it is reset like the state
        added = own + np.concatenate([beside[: 2 * size], np.zeros_like(inner) if linear_before_reset else inner])
        first_of, second_of = functions

        def step(given: Array, hidden: Array) -> States:
            both = first_of(clip(given[:, : 2 * size] + hidden @ gates))
            update, reset = both[:, :size], both[:, size:]
            if linear_before_reset:
                kept = reset * (hidden @ candidate + inner)
            else:
                kept = (reset * hidden) @ candidate
            new = second_of(clip(given[:, 2 * size :] + kept))
            return ((1 - update) * new + update * hidden,)

        return added, step

    return _run("GRU", cell, (x, weight, recurrence, bias), lengths=lengths, firsts=(first,), **settings)


def lstm(
    x: Array,
    weight: Array,
    recurrence: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    first: Array | None = None,
    first_cell: Array | None = None,
    peepholes: Array | None = None,
    *,
    input_forget: int = 0,
    **settings: Any,
) -> States:
    """LSTM, with gates in the order i, o, f, c and peepholes i, o, f: Y, Y_h and Y_c.  See `_run` for the rest."""

    def cell(weights: _Weights, functions: Functions, clip: Callable[[Array], Array]) -> tuple[Array, Cell]:
        size = weights.states.shape[1]
        seen = np.zeros(3 * size, dtype=x.dtype) if weights.peepholes is None else weights.peepholes
        by_input, by_output, by_forget = np.split(seen, 3)
        gate, squash, shown = functions

        def step(given: Array, hidden: Array, memory: Array) -> States:
            gates = given + hidden @ weights.states.T
            enter, leave, forget, new = (gates[:, place * size : (place + 1) * size] for place in range(4))
            enter = gate(clip(enter + by_input * memory))
            forget = 1 - enter if input_forget else gate(clip(forget + by_forget * memory))
            memory = forget * memory + enter * squash(clip(new))
            leave = gate(clip(leave + by_output * memory))
            return leave * shown(memory), memory

        return weights.both, step

    return _run(
        "LSTM",
        cell,
        (x, weight, recurrence, bias),
        lengths=lengths,
        firsts=(first, first_cell),
        peepholes=peepholes,
        **settings,
    )


def _run(
    op: str,
    cell: Callable[[_Weights, Functions, Callable[[Array], Array]], tuple[Array, Cell]],
    arrays: tuple[Array, Array, Array, Array | None],
    lengths: Array | None,
    firsts: Sequence[Array | None],
    peepholes: Array | None = None,
    *,
    direction: str = "forward",
    layout: int = 0,
    clip: float | None = None,
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    hidden_size: int | None = None,
    output_sequence: int = 1,
) -> States:
    """Run a cell over sequences in each direction.

    arrays: x [S, B, I], weights [D, gates·H, I] and [D, gates·H, H], bias [D, 2·gates·H] or None; D directions.
    lengths: [B], None for S.  firsts: the states [D, B, H] before the first step, None for zeros.  peepholes: [D, 3·H].
    With layout 1, B comes first.  clip: limit of the inputs of activations.
    Returns the outputs [S, D, B, H], zero after the end of a sequence, and the last states [D, B, H].
    Raises ValueError for shapes and settings that do not fit.
    """
    x, weight, recurrence, bias = arrays
    count = {"forward": 1, "reverse": 1, "bidirectional": 2}.get(direction)
    if count is None or len(weight) != count or len(recurrence) != count:
        raise ValueError(f"{len(weight)} sets of weights do not match direction '{direction}'")
    if layout:
        x, firsts = np.swapaxes(x, 0, 1), [one if one is None else np.swapaxes(one, 0, 1) for one in firsts]
    steps, batch = x.shape[:2]
    lengths = np.full(batch, steps) if lengths is None else lengths
    if lengths.shape != (batch,) or (lengths > steps).any():
        raise ValueError(f"lengths {lengths.tolist()} do not fit {batch} sequences of at most {steps} steps")
    bias = np.zeros((count, 2 * weight.shape[1]), dtype=x.dtype) if bias is None else bias
    blank = np.zeros((count, batch, recurrence.shape[2]), dtype=x.dtype)
    before = [blank if one is None else one for one in firsts]
    functions = _functions(activations or _DEFAULTS[op] * count, activation_alpha, activation_beta)
    limited: Callable[[Array], Array] = (lambda gates: np.clip(gates, -clip, clip)) if clip else (lambda gates: gates)
    each = len(_DEFAULTS[op])
    made = []
    for way in range(count):
        weights = _Weights(weight[way], recurrence[way], bias[way], None if peepholes is None else peepholes[way])
        added, step = cell(weights, functions[way * each : (way + 1) * each], limited)
        backwards = direction == "reverse" or way == 1
        given = x @ weights.inputs.T + added
        made.append(_walked(given, step, tuple(one[way] for one in before), lengths=lengths, backwards=backwards))
    outputs = np.stack([one for one, _ in made], axis=1)
    lasts = [np.stack(states) for states in zip(*(states for _, states in made), strict=True)]
    if layout:
        outputs, lasts = outputs.transpose(2, 0, 1, 3), [one.swapaxes(0, 1) for one in lasts]
    return (outputs, *lasts)


def _functions(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> Functions:
    """Return the activations; alphas and betas go in order to those that have such a parameter."""
    left, right = list(alphas), list(betas)
    found = []
    for name in names:
        one = activation(name)
        alpha = left.pop(0) if left and one.defaults else None
        beta = right.pop(0) if right and len(one.defaults) > 1 else None
        found.append(one.bound((alpha, beta)))
    return found


def _walked(given: Array, step: Cell, states: States, lengths: Array, backwards: bool) -> tuple[Array, States]:
    """Run over projected inputs [S, B, gates·H]; a sequence that has ended keeps its states and outputs zeros."""
    steps, batch = given.shape[:2]
    at, columns = np.arange(steps)[:, None], np.arange(batch)
    inside = at < lengths
    order = np.where(inside, lengths - 1 - at, at) if backwards else np.broadcast_to(at, inside.shape)
    outputs = np.zeros((steps, *states[0].shape), dtype=given.dtype)
    for number, places in enumerate(order):
        news = step(given[places, columns], *states)
        output = news[0]
        if not inside[number].all():
            goes_on = inside[number][:, None]
            news = tuple(np.where(goes_on, new, old) for new, old in zip(news, states, strict=True))
            output = np.where(goes_on, output, 0)
        outputs[places, columns], states = output, news
    began = (lengths > 0)[:, None]  # without steps ONNX Runtime returns zeros as the last state
    return outputs, tuple(np.where(began, state, 0) for state in states)


RECURRENT: dict[tuple[str, str], Callable[..., Any]] = {("", "RNN"): rnn, ("", "GRU"): gru, ("", "LSTM"): lstm}
