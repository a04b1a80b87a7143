"""How torch's exporters write an operator that they do not support, and how to recover it.

org.pytorch.aten::ATen   attribute `operator`; all arguments are inputs (operator_export_type=ONNX_ATEN_FALLBACK)
org.pytorch.aten::i0     the same with its name (ONNX_FALLTHROUGH); of other namespaces ns::op
prim::PythonOp           an autograd.Function without its name and its arguments
"""

from onnx import NodeProto

from surgeon.ops.schemas.op_schema import domains

ATEN_DOMAIN = "org.pytorch.aten"
FALLBACK = "ATen"
TORCHSCRIPT_DOMAIN = "prim"
NO_ATTRIBUTES = ("operator", "overload_name")  # of ATen: the operator


def operator_of(node: NodeProto) -> tuple[str, str, str | None] | None:
    """The namespace, name and overload (None if unknown) of the torch operator that a node represents, if any.

    None for nodes of ONNX's and ONNX Runtime's domains, and for parts of TorchScript.
    """
    domain, name = node.domain, node.op_type
    if domain in ("", TORCHSCRIPT_DOMAIN) or domain in domains():
        return None
    if (domain, name) == (ATEN_DOMAIN, FALLBACK):
        stored = {item.name: item.s.decode() for item in node.attribute if item.name in NO_ATTRIBUTES}
        operator = stored.get("operator", "")
        namespace, colons, plain = operator.partition("::")
        name, dot, overload = (plain if colons else operator).partition(".")
        overload_name = stored.get("overload_name") or overload
        return (namespace if colons else "aten"), name, overload_name or None
    return ("aten" if domain == ATEN_DOMAIN else domain), name, None


def lost(node: NodeProto) -> str | None:
    """A message about a node whose computation is unknown; None for any other."""
    if node.domain != TORCHSCRIPT_DOMAIN:
        return None
    if node.op_type == "PythonOp":
        return (
            "prim::PythonOp represents an autograd.Function, but the exporter did not write its name and arguments. "
            "Export the model again, and list the class in surgeon.torch.export(..., placeholders=[...])."
        )
    return (
        f"prim::{node.op_type} is part of TorchScript, not an operator. Export the model again without "
        "ONNX_FALLTHROUGH, and list unknown ops in surgeon.torch.export(..., placeholders=[...])."
    )
