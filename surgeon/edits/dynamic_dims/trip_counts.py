"""Loops whose trip count is the old size, by coincidence or because each sample takes one iteration."""

from surgeon.edits.dynamic_dims.planned_inputs import Revisit
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.shapes.algebra.size_expressions import symbol
from surgeon.shapes.tensor_types import NodeView


def check_loop(walk: SizePropagation, site: NodeView) -> None:
    """Choose whether the trip count of a Loop follows the dynamic size; raises Revisit once it does.

    It follows in the likelier interpretation if the body reads the iteration number, as `x[i]` does.
    """
    trips = site.value(0) if site.has(0) else None
    if trips is None or trips.size != 1 or not walk.is_constant(site, 0):
        return
    name = next((name for name, old in walk.fixed_sizes.items() if trips.reshape(-1)[0] == old), None)
    if name is None:
        return
    follows_first = any(body.readers(body.proto.input[0].name) for body in walk.shapes.bodies(site.node))
    chosen = walk.choose(site, ("turns", site.node.outputs), 2)
    if (chosen == 0) == follows_first:
        walk.plan_size_input(site, 0, [symbol(name)], scalar=trips.ndim == 0)
        raise Revisit(site.node)
