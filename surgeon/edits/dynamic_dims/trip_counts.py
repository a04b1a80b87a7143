"""Loops whose number of turns is the old size: one turn for each sample, or as many for another reason."""

from surgeon.edits.dynamic_dims.planned_inputs import Revisit
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.shapes.algebra.size_expressions import symbol
from surgeon.shapes.tensor_types import NodeView


def check_loop(walk: SizePropagation, site: NodeView) -> None:
    """Choose whether the turns of a Loop follow; raises Revisit once they do.

    They follow in the likelier interpretation where the body reads the number of the turn, as `x[turn]` does.
    """
    turns = site.value(0) if site.has(0) else None
    if turns is None or turns.size != 1 or not walk.is_constant(site, 0):
        return
    name = next((name for name, old in walk.fixed_sizes.items() if turns.reshape(-1)[0] == old), None)
    if name is None:
        return
    follows_first = any(body.readers(body.proto.input[0].name) for body in walk.shapes.bodies(site.node))
    chosen = walk.choose(site, ("turns", site.node.outputs), 2)
    if (chosen == 0) == follows_first:
        walk.plan_size_input(site, 0, [symbol(name)], scalar=turns.ndim == 0)
        raise Revisit(site.node)
