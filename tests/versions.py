"""Versions of what tests run on: the oldest that the project takes has faults that newer ones have not."""

from surgeon.versions import versions


def version_of(name: str) -> tuple[int, ...]:
    """The first two numbers of the installed version of what results depend on."""
    return tuple(int(part) for part in versions()[name].split(".")[:2])


ONNX_COMPUTES_WELL = version_of("onnx") >= (1, 23)
"""Whether onnx's evaluator knows directions of recurrent nets, and pads convolutions as they ask."""

ERF_TAKES_NO_INTEGERS = version_of("onnx") >= (1, 20)
"""Whether onnx's schemas say so of Erf-13; before, no op of ai.onnx took fewer types from any opset to the next."""

NEWEST_OF_DYNAMO = 25 if version_of("onnx") >= (1, 20) else 24
"""The newest opset that the dynamo exporter writes: an older onnx cannot check a newer one."""

KERNELS_OF_ALL_RULES = version_of("onnxruntime") >= (1, 30)
"""Whether ONNX Runtime's kernels are those that all rules are tested with: up to 1.26 LayerNormalization makes NaN of
large numbers, and 1.20 runs one function for all that differ by their overload alone."""

ONNX_LOADS_WITH_CARE = version_of("onnx") >= (1, 23)
"""Whether onnx.load refuses data files that are hard links, and reads those of local functions; 1.19 does neither."""
