"""The sides of the decisions of an original that no case of its proof reached."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Self, cast

import numpy as np
from onnx import ModelProto, numpy_helper

from surgeon.analysis.decisions.decision_sides import Decision, Sides, decisions_of
from surgeon.proof.cases.literal_injection import Feeds
from surgeon.proof.model.exposed_outputs import exposing
from surgeon.proof.proof_case import ProofCase
from surgeon.runtime.sessions.oracle import Oracle, open_evaluator, open_oracle
from surgeon.runtime.sessions.ort_session import SessionError


class DecisionCoverage:
    """Reads the tensors on which an original decides, in a second run of it on each case.

    A context manager.  The sides that were reached are kept after it.
    """

    def __init__(self) -> None:
        self._decisions: Sequence[Decision] = ()
        self._reached: dict[int, dict[str, bool]] = {}  # by the place of the decision
        self._refusal = ""
        self._oracle: Oracle | None = None
        self._stored: Mapping[str, np.ndarray] = {}
        self._stack = ExitStack()

    def opened(self, case: ProofCase, *, is_evaluated: bool) -> Self:
        """The same while it can read the tensors of the original.  is_evaluated: by onnx's ReferenceEvaluator."""
        model = case.models.before
        self._decisions = decisions_of(model.graph)
        self._stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        given = {*self._stored, *(port.name for port in model.graph.input)}
        inner = list(dict.fromkeys(name for one in self._decisions for name in one.reads if name not in given))
        if inner:
            try:
                shown = cast(ModelProto, self._stack.enter_context(exposing(model, inner)))
                custom_ops, bodies = case.options.custom_ops, case.bodies_before
                opened = open_evaluator(shown) if is_evaluated else open_oracle(shown, custom_ops, bodies)
                self._oracle = self._stack.enter_context(opened)
            except SessionError as error:
                self._refusal = error.message
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._oracle = None

    def read(self, feeds: Feeds) -> None:
        """Note the sides that a case reaches."""
        try:
            inner = {} if self._oracle is None else self._oracle.run(feeds)
        except SessionError as error:
            self._refusal = self._refusal or error.message
            return
        held = {**self._stored, **feeds, **inner}
        for place, decision in enumerate(self._decisions):
            if not all(name in held for name in decision.reads):
                continue
            with np.errstate(all="ignore"):
                self._add(place, decision.sides(*(held[name] for name in decision.reads)))

    def merge(self, other: Self) -> None:
        """Add the sides that another run of the same region reached."""
        for place, sides in other._reached.items():
            self._add(place, sides)

    def _add(self, place: int, sides: Sides) -> None:
        """Add sides of one decision to those that were reached."""
        reached = self._reached.setdefault(place, {})
        reached.update({side: is_reached or reached.get(side, False) for side, is_reached in sides.items()})

    @property
    def unseen(self) -> tuple[str, ...]:
        """The sides that no case reached, as a sentence for each decision; or why they are unknown."""
        if self._refusal:
            return (f"the original does not run with its inner tensors as outputs: {self._refusal.rstrip('.')}",)
        found = []
        for place, decision in enumerate(self._decisions):
            sides = self._reached.get(place)
            missing = [] if sides is None else [side for side, is_reached in sides.items() if not is_reached]
            *first, last = missing or [""]
            lacking = " or ".join(filter(None, (", ".join(first), last)))
            if sides is None:
                found.append(f"{decision.op} at {decision.output!r}: no case reaches it")
            elif missing:
                found.append(f"{decision.op} at {decision.output!r}: no case has {lacking}")
        return tuple(found)
