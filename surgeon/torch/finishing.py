"""What an exporter wrote, checked and put right: the placeholders counted, names of sizes, opsets, marks."""

from collections import Counter
from collections.abc import Mapping

import onnx

from surgeon.ops.walking import nodes_of
from surgeon.torch.plan import ExportPlan, WrittenCall
from surgeon.torch.signature import MARK, STAND_IN
from surgeon.torch.sizes import name_sizes


def finish(model: onnx.ModelProto, plan: ExportPlan) -> Counter[str]:
    """Put the model right in place and say how many nodes of each placeholder it has.

    Raises ExportError where a size that was to be free has been fixed.
    """
    found: Counter[str] = Counter()
    shapes: dict[str, list[int | str | None]] = {}
    for node in nodes_of(model):
        mark = next((item.i for item in node.attribute if item.name == MARK), None)
        if mark is not None:
            written = plan.written[mark]
            _put_right(node, written)
            found[written.placeholder.name] += 1
            shapes.update(zip(node.output, written.shapes, strict=False))
            plan.found[next((name for name in node.output if name), "")] = written
    _import(model, {one.domain: plan.version for one in plan.placeholders if found[one.name]})
    name_sizes(model, plan.inputs, shapes)
    return found


def _put_right(node: onnx.NodeProto, written: WrittenCall) -> None:
    """The node's own domain and name, no marks, and attributes in the order of the operator's schema."""
    node.domain, node.op_type = written.placeholder.domain, written.placeholder.op
    order = {item.name: place for place, item in enumerate(written.schema.arguments)}
    items = sorted(
        (item for item in node.attribute if item.name != MARK),
        key=lambda item: order.get(item.name, len(order)),
    )
    del node.attribute[:]
    node.attribute.extend(items)


def _import(model: onnx.ModelProto, versions: Mapping[str, int]) -> None:
    """Let the model import each placeholder's domain at its version."""
    for item in list(model.opset_import):
        if item.domain == STAND_IN:
            model.opset_import.remove(item)
    imported = {item.domain: item for item in model.opset_import}
    for domain, version in versions.items():
        if domain in imported:
            imported[domain].version = version
        else:
            model.opset_import.add(domain=domain, version=version)
