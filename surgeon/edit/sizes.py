"""What asks an inner tensor of a match for its sizes, made to ask another, so that the match can go."""

from functools import partial
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from surgeon.edit.fragment import Fragment, build
from surgeon.graph import Graph
from surgeon.matching.match import Match
from surgeon.matching.sizes import Part, SizesAsked

SLICES = 15  # the opset from which Shape has start and end


def asked_elsewhere(match: Match, asked: SizesAsked) -> tuple[Match, Fragment]:
    """A match of the one node that asks, and what is to be there in its place."""
    names = dict.fromkeys(part.name for part in asked.parts if part.name is not None)
    bound = {f"size_{place}": name for place, name in enumerate(names)}
    place = Match(match.index, match.scope, match.pattern, (asked.node,), asked.node.outputs[:1], bound, asked.nodes)
    return place, build(partial(_written, asked=asked), place)


def _written(g: Graph, match: Match, asked: SizesAsked) -> Any:
    captured = {match.bound[name]: match[name] for name in match.bound}
    parts = [_part(g, part, captured.get(part.name), match.opset) for part in asked.parts]
    sizes = parts[0] if len(parts) == 1 else g.concat(*parts, axis=0) if parts else _constant([])
    if asked.node.op == "Shape":
        return sizes
    if all(part.name is None for part in asked.parts):
        return _constant(int(np.prod([int(str(size)) for part in asked.parts for size in part.sizes], dtype=np.int64)))
    return g.reduce_prod(sizes, keepdims=0)


def _part(g: Graph, part: Part, source: Any, opset: int) -> Any:
    if part.name is None:
        return _constant([int(str(size)) for size in part.sizes])
    if part.first == 0 and len(part.sizes) == source.rank:
        return g.shape(source)
    if opset >= SLICES:
        return g.shape(source, start=part.first, end=part.stop)
    return g.gather(g.shape(source), np.arange(part.first, part.stop, dtype=np.int64), axis=0)


def _constant(values: Any) -> Any:
    return gs.Constant("sizes", np.array(values, np.int64))
