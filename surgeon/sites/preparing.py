"""From a cut to the experiment that proves its region: all that has to be read off the index is read here."""

from collections.abc import Callable, Iterator, Sequence

import onnx
from onnx import FunctionProto

from surgeon.indexing.scope import Node
from surgeon.models.loads import Load, loads
from surgeon.running.inlining import name_of
from surgeon.shapes.symbols import SizeError, symbols
from surgeon.sites.constraints import most_looked_up, wishes
from surgeon.sites.cut import Cut
from surgeon.sites.experiment import Experiment, Input, ProofOptions, Wish
from surgeon.sites.mini import mini_models
from surgeon.sites.sizes import pinned, values_of
from surgeon.sites.sums import picks_by_products, sums

Bodies = Callable[[Node], FunctionProto | None]
"""Gives an operation's reference as a function, for a node that ORT may have no kernel for."""


def prepared(cut: Cut, options: ProofOptions, bodies: Bodies) -> Experiment:
    """The experiment that proves the region of a cut.  Raises CannotCut where an input's dtype or rank is unknown."""
    minis = mini_models(cut)
    return Experiment(
        minis=minis,
        inputs=tuple(Input(leaf.name, leaf.shape or (), leaf.value, leaf.weight) for leaf in cut.leaves.values()),
        outputs=tuple(name for name, _ in cut.region.outputs),
        options=options,
        bodies_before=_bodies(cut, minis.before, cut.before, bodies),
        bodies_after=_bodies(cut, minis.after, cut.after, bodies),
        empty=frozenset(name for name, _ in cut.region.outputs if 0 in cut.sizes(name)),
        added=frozenset(_added(cut)),
        pinned=pinned(cut),
        values=values_of(cut),
        loads=tuple(_loads(cut)),
        wishes=tuple(_wishes(cut)),
        most=most_looked_up(cut),
        sums=tuple(sums(cut)),
        picks_by_products=picks_by_products(cut),
        weights=cut.weights,
        slack=cut.region.slack,
        apart=cut.region.apart,
    )


def _loads(cut: Cut) -> Iterator[Load]:
    """What the original nodes compute, where their shapes are known."""
    for node in cut.before:
        scope = cut.origin.scope(node.scope)
        reads, makes = (
            [cut.shapes.facts(scope, name).shape if name else None for name in names]
            for names in (node.inputs, node.outputs)
        )
        yield from loads(node.op, reads, makes)


def _bodies(cut: Cut, mini: onnx.ModelProto, nodes: Sequence[Node], bodies: Bodies) -> dict[str, FunctionProto]:
    """The reference patterns that are known of some nodes, by what the mini-model calls the node."""
    known = {name_of(node) for node in mini.graph.node}
    found: dict[str, FunctionProto] = {}
    for node in nodes:
        body = bodies(node)
        if body is not None:
            name = node.name if node.name in known else cut.name(node.scope, node.outputs[0])
            found[name] = body
    return found


def _wishes(cut: Cut) -> Iterator[Wish]:
    """What nodes want of sizes, where more than one is free: one by itself has nothing to fit."""
    free: set[str] = set()
    for leaf in cut.leaves.values():
        values = () if leaf.value is None else leaf.value.reshape(-1)
        free.update(name for size in (*(leaf.shape or ()), *values) for name in symbols(size))
    if len(free) < 2:
        return
    try:
        yield from wishes(cut)
    except SizeError:
        return  # too long to compute with: the sizes are fitted as far as is known


def _added(cut: Cut) -> set[str]:
    """The constants that the replacement alone reads, by their names in the mini-models."""
    read = {cut.name(node.scope, name) for node in (*cut.prefix, *cut.before) for name in cut.reads(node)}
    return cut.constants.keys() - read
