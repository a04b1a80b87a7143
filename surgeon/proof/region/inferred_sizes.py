"""Values of integer inputs that are inferred from the stated shape of a Reshape, as for parts of a split model.

Only a proof uses them, not the rules: a Reshape to -1 gives the same shape.
"""

from collections.abc import Iterator

import numpy as np

from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import ValueArray


def inferred_size(shapes: ShapeInference, home: Scope, name: str) -> ValueArray | None:
    """The size that a one-element integer input has in the target of a Reshape; None if that is unknown."""
    if home.parent is not None or home.is_function or name not in home.inputs or shapes.facts(home, name).shape != (1,):
        return None
    for joined in _readers(home, name):
        parts, target = list(joined.inputs), joined.outputs[0]
        is_list = joined.op == "Concat" and all(shapes.facts(home, part).shape == (1,) for part in parts)
        for reader in _readers(home, target) if is_list and parts.count(name) == 1 else ():
            known = traits_of(reader.op)
            is_target = any(reader.inputs[slot : slot + 1] == (target,) for slot in known.operands.target_shape)
            shape = shapes.facts(home, reader.outputs[0]).shape
            if known.shape.is_reshape and is_target and shape is not None and len(shape) == len(parts):
                return np.array([shape[parts.index(name)]], dtype=object)
    return None


def _readers(home: Scope, name: str) -> Iterator[Node]:
    """The nodes of a graph that read a tensor; a graph of the source has no index of them."""
    return (node for node in home.nodes if name in node.inputs)
