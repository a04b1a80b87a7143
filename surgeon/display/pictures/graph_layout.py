"""Where the boxes of a picture go: layers from top to bottom, edges in the gaps between them.

Layers, and the order in each of them with few crossings, are fast-sugiyama's (after Sugiyama, Tagawa and Toda, 1981).
The places along a layer are found here, for boxes differ in width: each wants to stand under and over its neighbours,
and the nearest places that keep order and distance are those of isotonic regression (Barlow and others, 1972).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from surgeon.connected_components import connected_components
from surgeon.errors import UsageError
from surgeon.versions import install_command

GAP, SWEEPS, STRAIGHT = 22.0, 15, 4.0  # between slots; up and down; how much more a bend counts than a box
BEND = 14.0  # width of an edge on its way through a layer


@dataclass(slots=True)
class GraphLayout:
    """Places of all slots: boxes first, then the bends of long edges.

    x: the middle of each; layers: slots from left to right, from top to bottom; paths: for each edge, the slots that
    it goes through, both ends included.
    """

    x: list[float]
    layers: list[list[int]]
    paths: dict[tuple[int, int], list[int]] = field(default_factory=dict)


def arrange(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> GraphLayout:
    """Find places for boxes by their widths, and ways for the edges between them.

    Raises UsageError, which says what to install, without fast-sugiyama.
    """
    parts, linked = [], {place for edge in edges for place in edge}
    slots = list(widths)
    for edges_here in _apart(list(dict.fromkeys(edges))):
        own = dict(enumerate(sorted({place for edge in edges_here for place in edge})))
        numbers = {place: number for number, place in own.items()}
        positions, chains = _ranked([(numbers[source], numbers[target]) for source, target in edges_here])
        for number, _ in positions:
            if number not in own:
                own[number] = len(slots)
                slots.append(BEND)
        ways = [(own[source], own[target]) for source, target in chains]
        parts.append((_layers({own[number]: at for number, at in positions}), ways))
    parts += [([[place]], []) for place in range(len(widths)) if place not in linked]
    parts.sort(key=lambda part: min(slot for layer in part[0] for slot in layer))
    found = GraphLayout([0.0] * len(slots), [])
    offset = 0.0
    for layers, ways in parts:
        _place(layers, ways, slots, x=found.x, boxes=len(widths))
        left = min(found.x[slot] - slots[slot] / 2 for layer in layers for slot in layer)
        for slot in (slot for layer in layers for slot in layer):
            found.x[slot] += offset - left
        offset = max(found.x[slot] + slots[slot] / 2 for layer in layers for slot in layer) + 2 * GAP
        for level, layer in enumerate(layers):
            if level == len(found.layers):
                found.layers.append([])
            found.layers[level] += layer
        found.paths.update(_paths(ways, len(widths)))
    return found


def _apart(edges: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The edges of each connected part; of several at once the library may give a bend the number of a node."""
    parts = connected_components(dict.fromkeys(place for edge in edges for place in edge), edges)
    number = {place: at for at, part in enumerate(parts) for place in part}
    found: list[list[tuple[int, int]]] = [[] for _ in parts]
    for edge in edges:
        found[number[edge[0]]].append(edge)
    return found


def _ranked(edges: list[tuple[int, int]]) -> "tuple[list[tuple[int, tuple[float, float]]], list[tuple[int, int]]]":
    """The library's answer for one connected part: where nodes and bends stand, and the edges cut at bends."""
    try:
        from fast_sugiyama import from_edges
    except ImportError:
        raise UsageError(f"Pictures need a layout library: {install_command('pictures')}.") from None
    told = from_edges(edges, dummy_vertices=True, ranking_type="minimize", crossing_minimization="median")
    ((positions, _, _, chains),) = told
    return sorted(positions), sorted(chains or edges)


def _layers(positions: Mapping[int, tuple[float, float]]) -> list[list[int]]:
    """Slots by layer, from top to bottom, each from left to right."""
    levels: dict[float, list[int]] = defaultdict(list)
    for slot, (_, y) in positions.items():
        levels[y].append(slot)
    return [sorted(levels[y], key=lambda slot: (positions[slot][0], slot)) for y in sorted(levels, reverse=True)]


def _place(
    layers: list[list[int]], ways: list[tuple[int, int]], widths: Sequence[float], x: list[float], boxes: int
) -> None:
    """Find the middle of every slot of one part, in place."""
    above: dict[int, list[int]] = defaultdict(list)
    below: dict[int, list[int]] = defaultdict(list)
    for source, target in ways:
        above[target].append(source)
        below[source].append(target)
    for layer in layers:
        _settle(layer, [0.0] * len(layer), [1.0] * len(layer), widths=widths, x=x)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for layer in layers if down else layers[::-1]:
            wanted = [_middle([x[other] for other in near[slot]], x[slot]) for slot in layer]
            weights = [STRAIGHT if slot >= boxes else 1.0 for slot in layer]
            _settle(layer, wanted, weights, widths=widths, x=x)


def _middle(numbers: list[float], otherwise: float) -> float:
    """The median, which lets chains hang straight where a mean bends them a little at every node."""
    return median(numbers) if numbers else otherwise


def _settle(
    layer: list[int], wanted: Sequence[float], weights: Sequence[float], widths: Sequence[float], x: list[float]
) -> None:
    """Set x of a layer as near to what is wanted as order and distance let it (pool adjacent violators)."""
    shifts, shift = [], 0.0
    for place, slot in enumerate(layer):
        if place:
            shift += (widths[layer[place - 1]] + widths[slot]) / 2 + GAP
        shifts.append(shift)
    pools: list[tuple[float, float, int]] = []  # (mean, weight, how many)
    for place in range(len(layer)):
        mean, weight, count = wanted[place] - shifts[place], weights[place], 1
        while pools and pools[-1][0] > mean:
            other, more, number = pools.pop()
            mean = (mean * weight + other * more) / (weight + more)
            weight, count = weight + more, count + number
        pools.append((mean, weight, count))
    free = [mean for mean, _, count in pools for _ in range(count)]
    for place, slot in enumerate(layer):
        x[slot] = free[place] + shifts[place]


def _paths(ways: Sequence[tuple[int, int]], boxes: int) -> dict[tuple[int, int], list[int]]:
    """The slots of each edge, from box to box."""
    after = {source: target for source, target in ways if source >= boxes}
    found = {}
    for source, target in ways:
        if source < boxes:
            path = [source, target]
            while path[-1] >= boxes:
                path.append(after[path[-1]])
            found[source, path[-1]] = path
    return found
