"""The static picture of a view without a kernel: the groups and nodes that a view shows first."""

from collections.abc import Mapping
from typing import Any

from surgeon.display.pictures.diagram import Box, Diagram, DiagramEdge, shortened
from surgeon.display.pictures.draw import draw_diagrams
from surgeon.display.pictures.svg import Picture
from surgeon.errors import UsageError
from surgeon.ir.scope import DEFAULT_DOMAINS, split_op
from surgeon.text import format_count

MAX_BOXES, OPENED, SHARE = 100, 40, 0.6  # boxes; boxes after a group with this share of the nodes opens


def static_picture(graph: Mapping[str, Any]) -> Picture:
    """Draw the groups and nodes that a view shows first.  graph: the result of `ViewerSession.graph`.

    Raises UsageError for too many boxes, or if the layout library is missing.
    """
    found = initial_diagram(graph)
    if len(found.boxes) > MAX_BOXES:
        raise UsageError(f"{len(found.boxes)} boxes are too many to draw: run the cell and open the view.")
    return draw_diagrams([found])


def initial_diagram(graph: Mapping[str, Any]) -> Diagram:
    """The boxes that a view shows first, with the tensors between them.  graph: as for `static_picture`."""
    return _visible_diagram(graph, _initially_open(graph))


def _initially_open(graph: Mapping[str, Any]) -> set[int]:
    """The groups that are open: the root, and those with most of the nodes."""
    kinds, counts = graph["groups"]["kind"], graph["groups"]["count"]
    open_groups = {0}
    while True:
        closed = [_closed_group(graph, place, open_groups) for place in range(len(graph["nodes"]["name"]))]
        groups = dict.fromkeys(group for group in closed if group is not None)
        large = (group for group in groups if counts[group] > SHARE * counts[0] and kinds[group] != "stack")
        group = next(large, None)
        if group is None or len(groups) + closed.count(None) > OPENED:
            return open_groups
        open_groups.add(group)


def _closed_group(graph: Mapping[str, Any], node: int, open_groups: set[int]) -> int | None:
    """The outermost closed group around a node, None if all are open."""
    group, found = graph["nodes"]["group"][node], None
    while group >= 0:
        found = found if group in open_groups else group
        group = graph["groups"]["parent"][group]
    return found


def _visible_diagram(graph: Mapping[str, Any], open_groups: set[int]) -> Diagram:
    """The visible boxes, with the tensors between them."""
    found, nodes, indexes = Diagram(), graph["nodes"], dict[tuple[str, int], int]()

    def place(kind: str, number: int, box: Box) -> int:
        if (kind, number) not in indexes:
            indexes[kind, number] = len(found.boxes)
            found.boxes.append(box)
        return indexes[kind, number]

    box_of_node, box_of_tensor = list[int](), dict[int, int]()
    for node, outputs in enumerate(nodes["outputs"]):
        group = _closed_group(graph, node, open_groups)
        home = place("node", node, _node(graph, node)) if group is None else place("group", group, _group(graph, group))
        box_of_node.append(home)
        box_of_tensor.update(dict.fromkeys(outputs, home))
    edges = dict[tuple[int, int, int], DiagramEdge]()

    def connect(tensor: int, target: int) -> None:
        name = graph["tensors"][tensor]
        source = box_of_tensor.get(tensor)
        if source is None:
            source = place("input", tensor, Box("input", shortened(name), hint=name))
        if source != target:
            edges[source, target, tensor] = DiagramEdge(source, target, name, "")

    stored = set(graph["stored"])
    for node, inputs in enumerate(nodes["inputs"]):
        for tensor in inputs:
            if tensor not in stored:
                connect(tensor, box_of_node[node])
    for tensor in graph["outputs"]:
        name = graph["tensors"][tensor]
        connect(tensor, place("output", tensor, Box("output", shortened(name), hint=name)))
    found.edges.extend(edges.values())
    return found


def _node(graph: Mapping[str, Any], node: int) -> Box:
    number = graph["nodes"]["op"][node]
    domain, op = split_op(graph["ops"][number])
    shown = "" if domain in DEFAULT_DOMAINS else domain
    return Box(graph["kinds"][number], op, shown, hint=graph["nodes"]["name"][node])


def _group(graph: Mapping[str, Any], group: int) -> Box:
    label = graph["groups"]["label"][group]
    return Box("onnx", shortened(label), rows=(format_count(graph["groups"]["count"][group], "node"),), hint=label)
