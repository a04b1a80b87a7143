"""Names of the engines that run models, for reports."""

ONNX_RUNTIME = "ONNX Runtime"
NODE_BY_NODE = "ONNX Runtime, node by node"  # necessary for float16: in one graph, ONNX Runtime drops casts in between
ORIGINAL_ITSELF = "the original's own result"
"""The reference for results that are all as close to the original's as rounding allows."""
KERNEL_ENGINES = (ONNX_RUNTIME, NODE_BY_NODE)


def both_engines(replacement: str, original: str) -> str:
    """The names of the engines of both sides as one text; a name is empty if that side did not run."""
    names = [name for name in dict.fromkeys((replacement, original)) if name]
    return _BESIDE.join(names)


def replacement_engine(both: str) -> str:
    """The name of the replacement's engine, from the text of `both_engines`."""
    return both.partition(_BESIDE)[0]


_BESIDE = ", the original under "
