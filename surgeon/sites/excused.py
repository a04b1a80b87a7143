"""What is not held against a replacement: where products overflow in the original, and where nothing is computed."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from onnx import ModelProto

from surgeon.inputs.requirements import Values
from surgeon.ops.records import likened_node
from surgeon.running.oracles import Oracle
from surgeon.running.runtime import SessionError
from surgeon.sites.experiment import Experiment
from surgeon.sites.kinds import name_of_kind, products_of
from surgeon.sites.setting import Setting


def overflows(
    experiment: Experiment, feeds: Mapping[str, np.ndarray], oracle: Callable[[ModelProto, Mapping[str, Any]], Oracle]
) -> bool:
    """Whether products of these inputs overflow inside the original, for rules that differ where a number does.

    The infinity or NaN need not be seen in what it hands on: a guard may put zeros in the place of weights.
    """
    if name_of_kind(Values.NON_FINITE) not in experiment.apart:
        return False
    from surgeon.models.exposing import exposing  # not at the top: few proofs have to look inside

    before = experiment.minis.before
    products = products_of(before.graph)
    try:
        with exposing(before, products) as shown, oracle(cast(ModelProto, shown), {}) as inner:
            made = inner.run(dict(feeds))
    except SessionError:
        return False
    return any(name in made and not np.isfinite(made[name]).all() for name in products)


def is_unfit(experiment: Experiment, setting: Setting | None, name: str) -> bool:
    """Whether a node of the replacement cannot be without elements, as a Reshape to sizes that leave one open.

    Of what is empty along the first axis alone, as a batch without rows, nothing is asked.  name: of the node.
    """
    graph = experiment.minis.after.graph
    inner = (size for item in experiment.inputs for size in item.shape[1:])
    if setting is None or all(setting.size(size) for size in inner):
        return False
    fixed = {tensor.name for tensor in graph.initializer}
    shaped = (node for node in graph.node if node.name == name and likened_node(node).regroups)
    return any(not fixed.isdisjoint(node.input[1:]) for node in shaped)


def all_nan(array: np.ndarray) -> bool:
    """Whether an answer is NaN throughout, which anything that fails everywhere is too."""
    return array.dtype.kind in "fc" and bool(np.isnan(array).all())
