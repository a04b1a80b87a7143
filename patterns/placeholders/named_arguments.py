"""Placeholders of torch ops with all arguments as inputs, rewritten to nodes with named attributes."""

from typing import Any

from surgeon import Graph, Tensor, require, rule, searches


def is_known(problem: str) -> None:
    """Require that the schema of the operator is known, and that its attributes are constant."""
    require(not problem, problem)


@rule(search=searches.unnamed_arguments, conditions=[is_known], target="any")
def named_arguments(
    g: Graph,
    operator: str,
    tensors: list[Tensor],
    places: list[int | None],
    attributes: dict[str, Any],
    used: list[bool],
) -> list[Tensor]:
    """Give a placeholder of torch its arguments by name: org.pytorch.aten::ATen of "gelu" becomes aten::gelu.

    What: nodes of org.pytorch.aten, and of other domains with numbers and strings as constant inputs, as the exporter
    writes them with ONNX_ATEN_FALLBACK and ONNX_FALLTHROUGH.  By the schema of torch, tensors stay inputs in order, and
    all other arguments become attributes, including defaults.  Schemas of ATen are known.  For other schemas, call
    surgeon.torch_schema, or load the library that registers them in torch. prim::PythonOp cannot be recovered, because
    the export does not contain its name.
    Numerics: none.  It is the same call.
    """
    domain, _, name = operator.partition("::")
    inputs = [None if place is None else tensors[place] for place in places]
    results = g.emit(domain, name, inputs, attributes, len(used))
    return [result for result, is_used in zip(results, used, strict=True) if is_used]
