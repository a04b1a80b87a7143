"""Draws models, parts of them, and the changes of a rewrite."""

import os
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import onnx
import onnx_graphsurgeon as gs

from surgeon.display.pictures.diagram import Diagram, DiagramBuilder
from surgeon.display.pictures.svg import Picture, paint
from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import resolve_model
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.reports.site import Site
from surgeon.pipeline.rewriting.rule_run import open_index
from surgeon.rules.matching.match import Match
from surgeon.text import did_you_mean

Drawable: TypeAlias = "str | os.PathLike[str] | onnx.ModelProto | gs.Graph | RewriteReport | Site"
NODES, RADIUS, CHANGES = 60, 2, 4


class TooManyNodes(UsageError):
    """A graph with more nodes than the limit.  count: its nodes; is_part: whether `around` was given."""

    def __init__(self, count: int, *, is_part: bool) -> None:
        self.count, self.is_part = count, is_part
        super().__init__(self.message_with('around="node name"', "radius", f"nodes={count}"))

    def message_with(self, around: str, radius: str, nodes: str) -> str:
        """The message, with the caller's names of the options."""
        how = f"choose a smaller {radius}" if self.is_part else f"choose a part with {around}"
        return f"The graph has {self.count} nodes, too many for one picture: {how}, or allow more with {nodes}."


def draw(
    *models: Drawable,
    around: str | None = None,
    radius: int = RADIUS,
    inside: str | None = None,
    nodes: int = NODES,
    titles: Sequence[str] = (),
) -> Picture:
    """Draw models side by side, or each site that a rewrite changed before and after.

    Args:
        models: paths, ModelProtos, gs.Graphs, what `surgeon.torch.export` returned, the Report of a rewrite, or one
            Site.
        around: draw only the nodes around a node or a tensor, given by name.  In Python, for a report: the change that
            replaced or produced it.
        radius: number of steps from the node or tensor to draw.
        inside: draw a local function (`domain::name`) or a body (`then_branch of NODE`) instead of the main graph.
        nodes: largest number of nodes to draw; constants do not count.
        titles: one for each model; two models are titled "before" and "after" without.

    Returns:
        A picture (SVG) that notebooks show and `save` writes; the same model gives the same one, to the letter.

    Raises:
        UsageError: a graph of more nodes, a name that is not there, or the layout library is missing (`pip install
            "onnx-surgeon[pictures]"`).
        ModelFileError: a file cannot be read.

    Examples:
        >>> import surgeon
        >>> picture = surgeon.draw("notebooks/models/tiny_distilbert.onnx", around="node_gelu", radius=3)
        >>> picture.svg.startswith("<svg")
        True
    """
    if not models:
        raise UsageError("There is nothing to draw: give a model, a report or a site.")
    if radius < 0 or nodes < 1:
        raise UsageError(f"radius={radius}, nodes={nodes}: a picture needs at least one node and no negative radius.")
    if titles and len(titles) != len(models):
        raise UsageError(f"There are {len(titles)} titles for {len(models)} models: give one for each.")
    names = list(titles) or (["before", "after"] if len(models) == 2 else [""] * len(models))
    contents: list[Diagram] = []
    for model, title in zip(models, names, strict=True):
        if isinstance(model, RewriteReport):
            contents += _report_diagrams(model, around)
        elif isinstance(model, Site):
            contents += _site_diagrams(model, "")
        else:
            contents.append(_model_diagram(model, around, radius, inside=inside, title=title, most=nodes))
    for content in contents:
        _require_few(content.nodes, nodes, around)
    return paint(contents)


def draw_match(match: Match) -> Picture:
    """Draw a match of a pattern."""
    return paint([DiagramBuilder(match.index, match.scope).build(match.nodes, match.outputs, "")])


def draw_mismatch(index: Index, scope: str, root: str, at: str, pattern: Diagram | None) -> Picture:
    """Draw the nodes near a mismatch, with the mismatch marked, and the pattern next to them.

    scope: the label of the body or function.  root: the label of the node.  at: the mismatched node or tensor.
    """
    home = next(item for item in index.scopes if item.label == scope)
    ends = home.output_names
    nodes = _nodes_near(home, root, RADIUS)
    wrong = [node for node in nodes if node.label == at or at in node.outputs]
    marked = wrong or [node for node in nodes if at in node.inputs] or [node for node in nodes if node.label == root]
    found = DiagramBuilder(index, home, marked).build(nodes, _outgoing_tensors(home, nodes, ends), "the model")
    _require_few(found.nodes, NODES, root)
    return paint([found] if pattern is None else [pattern, found])


def draw_diagrams(diagrams: Sequence[Diagram]) -> Picture:
    """Draw finished diagrams."""
    return paint(diagrams)


def _model_diagram(
    model: "str | os.PathLike[str] | onnx.ModelProto | gs.Graph",
    around: str | None,
    radius: int,
    inside: str | None,
    title: str,
    most: int,
) -> Diagram:
    """The main graph, a function or a body; all or a part of it."""
    exported = getattr(model, "model", None)  # the result of surgeon.torch.export has the model
    source = exported if isinstance(exported, onnx.ModelProto) else model
    with Model.open(resolve_model(source)) as opened:
        index = open_index(opened)
        scope = index.main if inside is None else _scope(index, inside)
        ends = outputs = scope.output_names
        shown = list(scope.nodes)
        if around is not None:
            shown = _nodes_near(scope, around, radius)
            outputs = _outgoing_tensors(scope, shown, ends)
        _require_few(sum(node.op != "Constant" for node in shown), most, around)
        return DiagramBuilder(index, scope).build(shown, outputs, title)


def _require_few(count: int, most: int, around: str | None) -> None:
    if count > most:
        raise TooManyNodes(count, is_part=around is not None)


def _scope(index: Index, name: str) -> Scope:
    """A function or body by its label."""
    for scope in index.scopes:
        if scope.label and name in (scope.label, scope.label.removeprefix("function ")):
            return scope
    known = [scope.label.removeprefix("function ") for scope in index.scopes if scope.label]
    existing = f"it has {', '.join(known[:5])}" if known else "it has none"
    raise UsageError(f"The model has no local function or body named '{name}': {existing}.")


def _nodes_near(scope: Scope, name: str, radius: int) -> list[Node]:
    """The nodes at most `radius` steps from a node or tensor, in file order."""
    start = [node for node in scope.nodes if node.label == name or name in node.outputs]
    if not start:  # an input or stored tensor: its consumers
        start = [node for node in scope.nodes if name and name in node.inputs]
    if not start:
        where = scope.label or "the graph"
        known = (item for node in scope.nodes for item in (node.label, *node.outputs) if item)
        raise UsageError(f"No node and no tensor of {where} is named '{name}': {did_you_mean(name, known)}")
    distance = dict.fromkeys(start, 0)
    pending = deque(start)
    while pending:
        node = pending.popleft()
        if distance[node] == radius:
            continue
        sources = [scope.producers[item] for item in node.inputs if item in scope.producers]
        readers = [builder for item in node.outputs for builder in scope.readers(item) if builder.scope is scope]
        for other in (*sources, *readers):
            if other not in distance and other.op != "Constant":
                distance[other] = distance[node] + 1
                pending.append(other)
    return [node for node in scope.nodes if node in distance]


def _outgoing_tensors(scope: Scope, nodes: Sequence[Node], ends: Sequence[str]) -> list[str]:
    """The tensors of some nodes that other nodes consume, or that are outputs of the graph."""
    inside = set(nodes)
    made = [name for node in nodes for name in node.outputs if name]
    return [name for name in made if name in ends or any(node not in inside for node in scope.readers(name))]


def _report_diagrams(report: RewriteReport, around: str | None) -> list[Diagram]:
    """The first site of each kind of change, before and after."""
    sites = [site for site in report.sites if around is None or around in _names(site)]
    if not sites:
        what = "has no site" if around is None else f"has no site with '{around}'"
        raise UsageError(f"The report {what}, so there is nothing to draw: draw the model instead.")
    sites_by_kind: dict[object, list[Site]] = {}
    for site in sites:
        key = (site.rules, tuple(node.op for node in site.replaced), tuple(node.op for node in site.added))
        sites_by_kind.setdefault(key, []).append(site)
    found = []
    for first, *others in list(sites_by_kind.values())[:CHANGES]:
        found += _site_diagrams(first, f" (1 of {len(others) + 1})" if others else "")
    return found


def _names(site: Site) -> set[str]:
    nodes = (*site.replaced, *site.swept, *site.added)
    return {node.name for node in nodes} | {name for node in nodes for name in node.outputs}


def _site_diagrams(site: Site, more: str) -> list[Diagram]:
    """The nodes of a site before and after."""
    last = site.steps[-1]
    builder = DiagramBuilder(last.match.index, last.scope)
    removed = [node for step in site.steps for node in (*step.removed, *step.orphans) if node.original]
    added = [node for step in site.steps for node in step.added if node.alive]
    inner = {name for step in site.steps for node in step.added for name in node.outputs}
    ends = list(dict.fromkeys(name for step in site.steps for name in step.outputs))
    before = [name for name in ends if any(name in node.outputs for node in removed)]
    after = [(last.renamed or {}).get(name, name) for name in before]
    after = [name for name in after if name in inner or not added]
    name = " + ".join(site.rules)
    return [
        builder.build(sorted(removed, key=lambda node: node.slot), before, f"{name}{more}, before"),
        builder.build(added, after, f"{name}{more}, after"),
    ]
