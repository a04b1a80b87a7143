"""Findings for dynamic dims that the inputs declare while the graph still contains the size of the trace."""

from surgeon.edits.dynamic_dims.baked_in_size import size_inside
from surgeon.edits.dynamic_dims.make_dynamic import Free
from surgeon.ir.index import Index
from surgeon.printed_commands import command
from surgeon.shapes.algebra.size_expressions import parse_size, symbol
from surgeon.shapes.constraints.input_dims import required_inputs
from surgeon.targets.lint.dtype_conflicts import op_text
from surgeon.targets.lint.finding import DiagnosticCollector, node_path


def check_dynamic_dims(index: Index, found: DiagnosticCollector) -> None:
    """Add a finding for each declared dynamic dim with which the model runs at only one size."""
    places: dict[str, list[tuple[str, int]]] = {}
    for value in required_inputs(index.main.proto).values():
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param and parse_size(dim.dim_param) == symbol(dim.dim_param):
                places.setdefault(dim.dim_param, []).append((value.name, axis))
    for name, axes in places.items():
        inside = size_inside(index, name)
        if inside is None:
            continue
        source, axis = axes[0]
        node = inside.node
        at = f"the node {node_path(node)!r}" if node is not None else "an output"
        reason = f"the inputs declare the dynamic dim {name!r}, but {at} contains the traced size {inside.size}"
        found.add(
            "shape",
            op_text(node) if node is not None else "",
            f"{reason}, so the model runs only at that size",
            at=node_path(node) if node is not None else "",
            node=node,
            helps=[command("edit", "IN", "OUT", "--free", Free(axis, name, source).spelling)],
            stops=False,
        )
