"""Positions the boxes of a diagram in layers from top to bottom, with the edges in the gaps between them.

The layers, and an order in each that has few crossings, come from fast-sugiyama (after Sugiyama, Tagawa and Toda,
1981).
The positions in a layer are computed here, because boxes differ in width: each box is pulled towards its neighbours,
and isotonic regression (Barlow and others, 1972) finds the nearest positions that keep order and distance.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from surgeon.connected_components import connected_components
from surgeon.errors import UsageError
from surgeon.versions import install_command

GAP, SWEEPS, STRAIGHT = 22.0, 15, 4.0  # pixels between slots; sweeps; weight of a bend
BEND = 14.0  # width in pixels of an edge that passes through a layer


@dataclass(slots=True)
class GraphLayout:
    """The positions of all slots: boxes first, then the bends of long edges."""

    x: list[float]
    """The middle of each slot, in pixels."""
    layers: list[list[int]]
    """The slots of each layer, from left to right; layers from top to bottom."""
    paths: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """The slots that each edge passes, including both ends."""


def arrange(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> GraphLayout:
    """Position boxes of given widths, and route the edges between them.

    Raises UsageError with an install command if fast-sugiyama is missing.
    """
    parts, connected = [], {place for edge in edges for place in edge}
    slots = list(widths)
    for edges_here in _by_component(list(dict.fromkeys(edges))):
        slot_of = dict(enumerate(sorted({place for edge in edges_here for place in edge})))
        numbers = {place: number for number, place in slot_of.items()}
        positions, chains = _sugiyama([(numbers[source], numbers[target]) for source, target in edges_here])
        for number, _ in positions:
            if number not in slot_of:
                slot_of[number] = len(slots)
                slots.append(BEND)
        segments = [(slot_of[source], slot_of[target]) for source, target in chains]
        parts.append((_layers({slot_of[number]: at for number, at in positions}), segments))
    parts += [([[place]], []) for place in range(len(widths)) if place not in connected]
    parts.sort(key=lambda part: min(slot for layer in part[0] for slot in layer))
    found = GraphLayout([0.0] * len(slots), [])
    offset = 0.0
    for layers, segments in parts:
        _position_slots(layers, segments, slots, x=found.x, boxes=len(widths))
        left = min(found.x[slot] - slots[slot] / 2 for layer in layers for slot in layer)
        for slot in (slot for layer in layers for slot in layer):
            found.x[slot] += offset - left
        offset = max(found.x[slot] + slots[slot] / 2 for layer in layers for slot in layer) + 2 * GAP
        for level, layer in enumerate(layers):
            if level == len(found.layers):
                found.layers.append([])
            found.layers[level] += layer
        found.paths.update(_paths(segments, len(widths)))
    return found


def _by_component(edges: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The edges of each connected component; the library may give a bend the number of a node for several at once."""
    parts = connected_components(dict.fromkeys(place for edge in edges for place in edge), edges)
    number = {place: at for at, part in enumerate(parts) for place in part}
    found: list[list[tuple[int, int]]] = [[] for _ in parts]
    for edge in edges:
        found[number[edge[0]]].append(edge)
    return found


def _sugiyama(
    edges: list[tuple[int, int]],
) -> tuple[list[tuple[int, tuple[float, float]]], list[tuple[int, int]]]:
    """The library's result for one component: positions of nodes and bends, and the edges split at bends."""
    try:
        from fast_sugiyama import from_edges
    except ImportError:
        raise UsageError(f"Pictures need a layout library: {install_command('pictures')}.") from None
    layouts = from_edges(edges, dummy_vertices=True, ranking_type="minimize", crossing_minimization="median")
    ((positions, _, _, chains),) = layouts
    return sorted(positions), sorted(chains or edges)


def _layers(positions: Mapping[int, tuple[float, float]]) -> list[list[int]]:
    """Slots by layer, from top to bottom, each from left to right."""
    levels: dict[float, list[int]] = defaultdict(list)
    for slot, (_, y) in positions.items():
        levels[y].append(slot)
    return [sorted(levels[y], key=lambda slot: (positions[slot][0], slot)) for y in sorted(levels, reverse=True)]


def _position_slots(
    layers: list[list[int]], segments: list[tuple[int, int]], widths: Sequence[float], x: list[float], boxes: int
) -> None:
    """Compute the middle of every slot of one component, in place."""
    above: dict[int, list[int]] = defaultdict(list)
    below: dict[int, list[int]] = defaultdict(list)
    for source, target in segments:
        above[target].append(source)
        below[source].append(target)
    for layer in layers:
        _position_layer(layer, [0.0] * len(layer), [1.0] * len(layer), widths=widths, x=x)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for layer in layers if down else layers[::-1]:
            targets = [_median([x[other] for other in near[slot]], x[slot]) for slot in layer]
            weights = [STRAIGHT if slot >= boxes else 1.0 for slot in layer]
            _position_layer(layer, targets, weights, widths=widths, x=x)


def _median(numbers: list[float], otherwise: float) -> float:
    """The median, which keeps chains straight; a mean would bend them at every node."""
    return median(numbers) if numbers else otherwise


def _position_layer(
    layer: list[int], targets: Sequence[float], weights: Sequence[float], widths: Sequence[float], x: list[float]
) -> None:
    """Set x of a layer as near to the targets as order and distance allow (pool adjacent violators)."""
    shifts, shift = [], 0.0
    for place, slot in enumerate(layer):
        if place:
            shift += (widths[layer[place - 1]] + widths[slot]) / 2 + GAP
        shifts.append(shift)
    pools: list[tuple[float, float, int]] = []  # (mean, weight, how many)
    for place in range(len(layer)):
        mean, weight, count = targets[place] - shifts[place], weights[place], 1
        while pools and pools[-1][0] > mean:
            other, more, number = pools.pop()
            mean = (mean * weight + other * more) / (weight + more)
            weight, count = weight + more, count + number
        pools.append((mean, weight, count))
    positions = [mean for mean, _, count in pools for _ in range(count)]
    for place, slot in enumerate(layer):
        x[slot] = positions[place] + shifts[place]


def _paths(segments: Sequence[tuple[int, int]], boxes: int) -> dict[tuple[int, int], list[int]]:
    """The slots of each edge, from box to box."""
    after = {source: target for source, target in segments if source >= boxes}
    found = {}
    for source, target in segments:
        if source < boxes:
            path = [source, target]
            while path[-1] >= boxes:
                path.append(after[path[-1]])
            found[source, path[-1]] = path
    return found
