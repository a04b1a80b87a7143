"""What ONNX Runtime does not take on CUDA of ops that it has kernels for there, as seen with 1.31.1."""

from collections.abc import Iterator

from surgeon.diagnosis.limits import Limit, NodeFacts

_MOVING = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity")
_PRODUCTS = ("MatMul", "com.microsoft::MatMulNBits")
_ROTARY = ("RotaryEmbedding", "com.microsoft::RotaryEmbedding")

Found = Iterator[tuple[str, str]]


def _made_by(site: NodeFacts, position: int) -> str:
    """The op that makes an input, whatever moves it in between; "" where nothing does."""
    maker = site.maker(position)
    while maker is not None and maker.node.op in _MOVING:
        maker = maker.maker(0)
    return "" if maker is None else maker.node.op


def _grouped(site: NodeFacts) -> Found:
    """Its optimiser (GroupQueryAttentionFusion) takes the rotary embeddings and the products before it into the node.

    It reads the shape of a past that need not be there, which ends the process, and forgets the mask.
    """
    rotated = all(_made_by(site, place) in _ROTARY for place in (0, 1))
    is_half = site.dtype(0) in (None, "float16", "bfloat16")
    if is_half and rotated and _made_by(site, 2) in _PRODUCTS and not site.attribute("do_rotary", 0):
        told = "ONNX Runtime's optimiser for CUDA takes rotary embeddings into GroupQueryAttention wrongly"
        yield told, "choose --target onnx, whose Attention it leaves alone"


def _attention(site: NodeFacts) -> Found:
    if site.makes(3) and site.attribute("qk_matmul_output_mode", 0):
        yield "ONNX Runtime's Attention on CUDA gives its scores as the first product makes them alone", ""


def _recurrent(site: NodeFacts) -> Found:
    if site.attribute("layout", 0):
        yield f"ONNX Runtime has no {site.node.op} with the batch first on CUDA", "put Transposes around it"


def _batch_norm(site: NodeFacts) -> Found:
    if site.attribute("training_mode", 0):
        yield "ONNX Runtime does not train on CUDA", "export the model in eval mode"


LIMITS: dict[str, Limit] = {
    "com.microsoft::GroupQueryAttention": _grouped,
    "Attention": _attention,
    "BatchNormalization": _batch_norm,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
}
