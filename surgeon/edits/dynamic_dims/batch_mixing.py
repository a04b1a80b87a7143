"""Which tensors mix samples: they depend on several positions along a dynamic dim."""

from collections.abc import Iterable, Iterator

from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Expr, Size
from surgeon.shapes.hypothetical_shapes import Place
from surgeon.shapes.op_rules.axis_labels import AxisLabels
from surgeon.shapes.op_rules.rule_table import axis_labels
from surgeon.shapes.tensor_types import INTEGERS, NodeView


def batch_mixing_tensors(walk: SizePropagation) -> set[Place]:
    """Tensors that may mix samples, after a finished propagation; unknown ops count as mixing.

    A tensor that has the dynamic dim on two axes, or its square on one, counts too.
    """
    found: set[Place] = set()
    for node in _in_order(walk):
        inside = [place for body in walk.shapes.bodies(node) for place in ((body, x.name) for x in body.proto.output)]
        read = [(home, name) for name in node.inputs if name and (home := node.scope.defining_scope(name)) is not None]
        if any(place in found for place in (*read, *inside)) or _mixes(walk, walk.shapes.site(node)):
            found.update((node.scope, name) for name in node.outputs if name)
    return found


def _in_order(walk: SizePropagation) -> Iterator[Node]:
    """Nodes of the main graph and of bodies; nodes of a body before its owner."""

    def below(node: Node) -> Iterator[Node]:
        for body in walk.shapes.bodies(node):
            for inner in body.nodes:
                yield from below(inner)
        yield node

    for node in walk.index.main.nodes:
        yield from below(node)


def _mixes(walk: SizePropagation, site: NodeView) -> bool:
    """Whether the outputs of a node mix samples although its inputs do not."""
    node = site.node
    made = [walk.shapes.facts(site.scope, name) for name in node.outputs if name]
    if any(facts.shape is not None and _is_square(walk, facts.shape) for facts in made):
        return True
    traits = traits_of(node.op)
    if not walk.reads_dynamic(site) or traits.shape.returns_sizes or node in walk.notes.position_readers:
        return False
    if node in walk.notes.position_enumerators:
        return True
    if traits.dtype.is_cast and any(facts.dtype not in INTEGERS for facts in made):
        value = site.value(0)  # a size that is cast to float is a number, such as the count of samples of a mean
        return value is not None and walk.is_dynamic([item for item in value.flat if isinstance(item, Expr)])
    labels = axis_labels(site)
    if labels is not None:
        return _is_mixed(walk, site, labels)
    is_known = all(facts.shape is not None for facts in made) and walk.shapes.function(node) is None
    return not is_known or not all(
        facts.dtype in INTEGERS and walk.shapes.value(site.scope, name) is not None
        for facts, name in zip(made, filter(None, node.outputs), strict=True)
    )  # sizes that are computed from sizes mix none


def _is_square(walk: SizePropagation, shape: Iterable[Size | None]) -> bool:
    dynamic = [size for size in shape if walk.is_dynamic([size])]
    return len(dynamic) > 1 and len(walk.fixed_sizes) < len(dynamic)


def _is_mixed(walk: SizePropagation, site: NodeView, labels: AxisLabels) -> bool:
    """Whether one of the axes that an op combines is dynamic."""
    axes = [(labels.inputs[place], site.shape(place)) for place in labels.inputs]
    axes += [] if labels.output is None else [(labels.output, site.made_shape())]
    return any(
        label in labels.mixed and walk.is_dynamic([size])
        for names, shape in axes
        for label, size in zip(names, shape or (), strict=True)
    )
