"""Limits of ONNX Runtime's CUDA kernels, observed with 1.31.1."""

from collections.abc import Iterator

from surgeon.ops.traits.trait_lookup import TRAINING_HELP
from surgeon.shapes.algebra.polynomials import Size, SizeError
from surgeon.shapes.algebra.size_expressions import evaluate, symbols
from surgeon.targets.op_limits import Limit, NodeFacts

_MOVING = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity")
_PRODUCTS = ("MatMul", "com.microsoft::MatMulNBits")
_ROTARY = ("RotaryEmbedding", "com.microsoft::RotaryEmbedding")
_SMALL = range(1, 9)  # lengths at which what is left of one may be nothing

Found = Iterator[tuple[str, str]]


def _source_op(site: NodeFacts, position: int) -> str | None:
    """The op that computes an input, before any ops that move it; None for none."""
    maker = site.maker(position)
    while maker is not None and maker.node.op in _MOVING:
        maker = maker.maker(0)
    return None if maker is None else maker.node.op


def _grouped(site: NodeFacts) -> Found:
    """Its optimiser (GroupQueryAttentionFusion) merges rotary embeddings and projections into the node.

    The fusion reads the shape of an omitted past, which ends the process, and drops the mask.
    """
    rotated = all(_source_op(site, place) in _ROTARY for place in (0, 1))
    is_half = site.dtype(0) in (None, "float16", "bfloat16")
    if is_half and rotated and _source_op(site, 2) in _PRODUCTS and not site.attribute("do_rotary", 0):
        reason = "ONNX Runtime's optimiser for CUDA merges rotary embeddings into GroupQueryAttention wrongly"
        yield reason, "use --target onnx, because it does not change Attention"
    if site.has(10) and (site.has(11) or site.attribute("smooth_softmax", 0)):
        yield "ONNX Runtime's GroupQueryAttention on CUDA supports a mask or sinks, but not both", ""


def _rotary(site: NodeFacts) -> Found:
    shape = site.shape(0) or ()
    rows = shape[-2] if len(shape) in (3, 4) else 1
    if _may_be_none(rows):
        yield f"ONNX Runtime's RotaryEmbedding on CUDA needs at least one row, but {rows} may be 0", ""


def _may_be_none(size: Size | None) -> bool:
    """Whether a size is 0 for some length, such as the rest of a length after a prefix."""
    if size is None or isinstance(size, int) or len(names := symbols(size)) != 1:
        return False
    try:
        return any(evaluate(size, dict.fromkeys(names, length)) <= 0 for length in _SMALL)
    except SizeError:  # a division by 0
        return False


def _attention(site: NodeFacts) -> Found:
    if site.makes(3) and site.attribute("qk_matmul_output_mode", 0):
        yield "ONNX Runtime's Attention on CUDA supports only qk_matmul_output_mode=0", ""


def _recurrent(site: NodeFacts) -> Found:
    if site.attribute("layout", 0):
        yield f"ONNX Runtime has no {site.node.op} with layout=1 on CUDA", "set layout=0, and add Transposes"


def _batch_norm(site: NodeFacts) -> Found:
    if site.attribute("training_mode", 0):
        yield "ONNX Runtime has no training mode on CUDA", TRAINING_HELP


LIMITS: dict[str, Limit] = {
    "com.microsoft::GroupQueryAttention": _grouped,
    "Attention": _attention,
    **dict.fromkeys(_ROTARY, _rotary),
    "BatchNormalization": _batch_norm,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
}
