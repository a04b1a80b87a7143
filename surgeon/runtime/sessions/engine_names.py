"""Names of what runs models, as reports have them."""

ONNX_RUNTIME = "ONNX Runtime"
NODE_BY_NODE = "ONNX Runtime, node by node"  # as float16 has to be: in one graph, casts in between are dropped
ORIGINAL_ITSELF = "the original's own result"
"""The reference for results that are all as close to the original's as rounding allows."""
KERNEL_ENGINES = (ONNX_RUNTIME, NODE_BY_NODE)


def both_engines(replacement: str, original: str) -> str:
    """The names of what ran both sides; either is empty where it did not run."""
    names = [name for name in dict.fromkeys((replacement, original)) if name]
    return _BESIDE.join(names)


def replacement_engine(both: str) -> str:
    """The name of what ran the replacement, from the names of both."""
    return both.partition(_BESIDE)[0]


_BESIDE = ", the original under "
