"""Dynamic dims that the inputs declare while the graph still contains the size of the trace, as findings."""

from surgeon.commands import command
from surgeon.diagnosis.dtypes import spelled
from surgeon.diagnosis.finding import Diagnostics, place_of
from surgeon.edits.free import Free
from surgeon.freeing.inside import size_inside
from surgeon.indexing.index import Index
from surgeon.inputs.dims import wanted_inputs
from surgeon.shapes.symbols import parse, symbol


def check_dynamic_dims(index: Index, found: Diagnostics) -> None:
    """Note each declared dynamic dim that the model takes at one size only, with the edit that changes it."""
    places: dict[str, list[tuple[str, int]]] = {}
    for value in wanted_inputs(index.main.proto).values():
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param and parse(dim.dim_param) == symbol(dim.dim_param):
                places.setdefault(dim.dim_param, []).append((value.name, axis))
    for name, axes in places.items():
        inside = size_inside(index, name)
        if inside is None:
            continue
        source, axis = axes[0]
        node = inside.node
        at = f"the node {place_of(node)!r}" if node is not None else "an output"
        reason = f"the inputs declare the dynamic dim {name!r}, but {at} has the size {inside.size} of the trace"
        found.add(
            "shape",
            spelled(node) if node is not None else "",
            f"{reason}, so the model runs only at that size",
            at=place_of(node) if node is not None else "",
            node=node,
            helps=[command("edit", "IN", "OUT", "--free", Free(axis, name, source).spelling)],
            stops=False,
        )
