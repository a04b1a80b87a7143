"""How a wrong rule is planted by hand, and what such rules have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import surgeon
from surgeon import Rule
from surgeon.testing import parse
from tests.mutation.building import initializers, rule_of, written

LARGE = 5000  # elements of a weight that proofs make up
HEADER = '<ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]> agraph '
X = "(float[n, m] x) => (float[n, m] y) "
JUMP, WEIGHT, MASK, INDEX, INTEGER = "jumps", "weights", "masks", "indices", "integers"
SIZE, SCALE, MAGNITUDE, EDGE = "sizes", "scale", "magnitudes", "edges"


@dataclass(frozen=True)
class Planted:
    """A wrong rule and a model on which it is wrong.  area: the class of hole; name: what is wrong."""

    area: str
    name: str
    rule: Rule
    model: onnx.ModelProto


PLANTED: dict[str, Planted] = {}


def plant(
    area: str, name: str, text: str, pattern: Callable[..., Any], wrong: Callable[..., Any], **weights: Any
) -> None:
    """Add one.  weights: initializers of the model, by name, that its text reads."""
    model = parse(HEADER + text)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(w), key) for key, w in weights.items())
    PLANTED[name] = Planted(area, name, rule_of(pattern, wrong), model)


def plant_text(area: str, name: str, ports: str, right: str, wrong: str, opset: int = 18, **weights: Any) -> None:
    """Add one of which both sides are texts of models with the same inputs and outputs."""
    sides = []
    for body in (right, wrong):
        model = parse(HEADER.replace(": 18", f": {opset}") + ports + body)
        read = {name for node in model.graph.node for name in node.input}
        tensors = (numpy_helper.from_array(np.asarray(array), key) for key, array in weights.items() if key in read)
        model.graph.initializer.extend(tensors)
        sides.append(model)
    given, made = ([port.name for port in ports] for ports in (sides[0].graph.input, sides[0].graph.output))
    written_by = [written(side.graph.node, initializers(side.graph), given, made) for side in sides]
    PLANTED[name] = Planted(area, name, rule_of(*written_by), sides[0])


def outcome(one: Planted) -> tuple[str, str]:
    """What the proof of the site says: the outcome, "refused" where nothing is written, and the reason."""
    _, report = surgeon.rewrite(one.model, one.rule, target="onnx", check="sites", keep_going=True)
    sites = [*report.sites, *report.rolled_back]
    return (sites[0].outcome, sites[0].reason) if sites else ("refused", report.misses[0].reason)


def tampered(g: Any, y: Any, where: Any) -> Any:
    """y, half as large again where a condition holds."""
    return g.where(where, g.mul(y, 1.5), y)


def size(g: Any, x: Any, axis: int) -> Any:
    """A size as a scalar."""
    return g.gather(g.shape(x), np.array(axis))
