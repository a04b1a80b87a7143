"""The picture of a view for where no kernel answers: the groups and nodes of its first sight."""

from collections.abc import Mapping
from typing import Any

from surgeon.display.pictures.diagram import Box, Diagram, DiagramEdge, cut
from surgeon.display.pictures.draw import draw_diagrams
from surgeon.display.pictures.svg import Picture
from surgeon.errors import UsageError
from surgeon.ir.scope import DEFAULT_DOMAINS, split_op
from surgeon.text import format_count

MOST, OPENED, SHARE = 100, 40, 0.6  # boxes of a picture; boxes up to which a group of this share of the nodes is opened


def still(graph: Mapping[str, Any]) -> Picture:
    """Draw the groups and nodes that a view shows before anybody clicks.

    graph: what `ViewedModel.graph` returns.

    Raises:
        UsageError: there are too many boxes, or the layout library is missing (`pip install
            "onnx-surgeon[pictures]"`).
    """
    found = first_sight(graph)
    if len(found.boxes) > MOST:
        raise UsageError(f"{len(found.boxes)} boxes are too many to draw: run the cell and open the view.")
    return draw_diagrams([found])


def first_sight(graph: Mapping[str, Any]) -> Diagram:
    """The boxes that a view shows first and the tensors between them.  graph: as for `still`."""
    return _sight(graph, _opened(graph))


def _opened(graph: Mapping[str, Any]) -> set[int]:
    """The groups that are open: the root, and those that hold most nodes."""
    kinds, counts = graph["groups"]["kind"], graph["groups"]["count"]
    opened = {0}
    while True:
        closed = [_closed(graph, place, opened) for place in range(len(graph["nodes"]["name"]))]
        groups = dict.fromkeys(group for group in closed if group is not None)
        large = (group for group in groups if counts[group] > SHARE * counts[0] and kinds[group] != "stack")
        group = next(large, None)
        if group is None or len(groups) + closed.count(None) > OPENED:
            return opened
        opened.add(group)


def _closed(graph: Mapping[str, Any], node: int, opened: set[int]) -> int | None:
    """The outermost closed group around a node, None where all are open."""
    group, found = graph["nodes"]["group"][node], None
    while group >= 0:
        found = found if group in opened else group
        group = graph["groups"]["parent"][group]
    return found


def _sight(graph: Mapping[str, Any], opened: set[int]) -> Diagram:
    """The boxes in sight and the tensors between them."""
    found, nodes, places = Diagram(), graph["nodes"], dict[tuple[str, int], int]()

    def place(kind: str, number: int, box: Box) -> int:
        if (kind, number) not in places:
            places[kind, number] = len(found.boxes)
            found.boxes.append(box)
        return places[kind, number]

    homes, makers = list[int](), dict[int, int]()
    for node, outputs in enumerate(nodes["outputs"]):
        group = _closed(graph, node, opened)
        home = place("node", node, _node(graph, node)) if group is None else place("group", group, _group(graph, group))
        homes.append(home)
        makers.update(dict.fromkeys(outputs, home))
    wires = dict[tuple[int, int, int], DiagramEdge]()

    def connect(tensor: int, target: int) -> None:
        name = graph["tensors"][tensor]
        source = makers[tensor] if tensor in makers else place("input", tensor, Box("input", cut(name), hint=name))
        if source != target:
            wires[source, target, tensor] = DiagramEdge(source, target, name, "")

    stored = set(graph["stored"])
    for node, inputs in enumerate(nodes["inputs"]):
        for tensor in inputs:
            if tensor not in stored:
                connect(tensor, homes[node])
    for tensor in graph["outputs"]:
        name = graph["tensors"][tensor]
        connect(tensor, place("output", tensor, Box("output", cut(name), hint=name)))
    found.wires.extend(wires.values())
    return found


def _node(graph: Mapping[str, Any], node: int) -> Box:
    number = graph["nodes"]["op"][node]
    domain, op = split_op(graph["ops"][number])
    shown = "" if domain in DEFAULT_DOMAINS else domain
    return Box(graph["kinds"][number], op, shown, hint=graph["nodes"]["name"][node])


def _group(graph: Mapping[str, Any], group: int) -> Box:
    label = graph["groups"]["label"][group]
    return Box("onnx", cut(label), rows=(format_count(graph["groups"]["count"][group], "node"),), hint=label)
