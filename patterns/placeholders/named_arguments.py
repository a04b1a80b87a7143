"""Placeholders that exporters of torch wrote with all arguments as inputs, as nodes with attributes by name."""

from typing import Any

from surgeon import Graph, Tensor, require, rule, searches


def is_known(problem: str) -> None:
    """The operator's schema is known, and what must be an attribute is a constant."""
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
    """Give a placeholder of torch its arguments by name: org.pytorch.aten::ATen of "gelu" as aten::gelu.

    What: nodes of org.pytorch.aten, and of other domains with numbers and strings as constant inputs, as the exporter
    writes them with ONNX_ATEN_FALLBACK and ONNX_FALLTHROUGH.  By torch's schema tensors stay inputs, in order, and all
    else becomes attributes, defaults written out.  Schemas of ATen are known; give others to surgeon.torch_schema, or
    load what registers them in torch.  prim::PythonOp cannot be recovered: its name was never written.
    Numerics: none; it is the same call.
    """
    domain, _, name = operator.partition("::")
    inputs = [None if place is None else tensors[place] for place in places]
    results = g.emit(domain, name, inputs, attributes, len(used))
    return [result for result, is_used in zip(results, used, strict=True) if is_used]
