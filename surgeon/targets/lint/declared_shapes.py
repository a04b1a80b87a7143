"""Declared shapes that differ from what the nodes compute, as findings."""

from surgeon.ir.index import Index
from surgeon.shapes.contradictions import find_contradictions
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.targets.lint.dtype_conflicts import op_text
from surgeon.targets.lint.finding import DiagnosticCollector, node_path

REFUSED = "which onnx.checker refuses where it can tell"


def check_stated_shapes(index: Index, shapes: ShapeInference, found: DiagnosticCollector) -> None:
    """Report nodes of the main graph whose output shapes differ from the declared ones, if no other fault causes it."""
    doubtful = {name for one in found if one.kind == "shape" for node in one.where for name in node.outputs}
    for node, stated, made in find_contradictions(index, shapes, doubtful):
        reason = f"the graph states the shape {stated}, and the node makes {made}, {REFUSED}"
        together = f"the graph states other shapes than the node makes, {REFUSED}"
        helps = [f"state {made}"]
        found.add("shape", op_text(node), reason, at=node_path(node), node=node, helps=helps, stops=False,
                  together=together)
