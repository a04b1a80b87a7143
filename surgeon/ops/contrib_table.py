"""The records of the operators of other domains: ONNX Runtime's, ai.onnx.ml's, and convolutions of plugins."""

from collections.abc import Iterator

from surgeon.ops.record import Attends, Lookup, Op, each

_MICROSOFT = (
    *each("Gelu QuickGelu", same=True, of_one=True, to_scale=True),
    *each("BiasGelu FastGelu", same=True, of_one=True, to_scale=True, vectors=(1,)),
    *each("BiasAdd GemmaRotaryEmbedding Inverse MoE QLinearLeakyRelu QLinearSigmoid QMoE", same=True),
    Op("BiasSoftmax", same=True, adds_up=True, softmax=True, scores=(0, 1)),
    Op("QLinearSoftmax", same=True, adds_up=True),
    *each("QuantizeLinear DequantizeLinear", keeps_shape=True),
    Op("Trilu", same=True, carries=(0,), exact=True, zeros=(1,)),
    Op("GatherND", moves=(0,), lookups=(Lookup(1, 0, by_tuples=True),)),
    Op("GatherBlockQuantized", lookups=(Lookup(1, 0, "gather_axis"),)),
    Op("Sampling", random="always"),
    *each("BiasDropout BitmaskBiasDropout", random="training", training=4),
    Op("BitmaskDropout", random="training", training=2),
    Op("GroupNorm", same=True, adds_up=True, squares=True, vectors=(1, 2)),
    Op("SkipGroupNorm", adds_up=True, squares=True),
    Op("SkipLayerNormalization", norm=-1, adds_up=True, squares=True, vectors=(2, 3, 4)),
    Op("SkipSimplifiedLayerNormalization", norm=-1, adds_up=True, squares=True, vectors=(2, 3)),
    Op("EmbedLayerNormalization", adds_up=True, squares=True, mask=(7,),
       lookups=(Lookup(0, 2), Lookup(1, 4), Lookup(8, 3))),
    Op("QLinearAveragePool", adds_up=True, moves_windows=True),
    Op("QLinearGlobalAveragePool", adds_up=True),
    *each("MaxpoolWithMask NhwcMaxPool", picks=True, moves_windows=True),
    *each("FusedMatMul TransposeMatMul", product="matrices", factors=(0, 1), squares_at=(1,)),
    Op("DynamicQuantizeMatMul", product="matrices", factors=(0, 1), squares_at=(1,), per_column=(2, 3), bias=4),
    Op("MatMulIntegerToFloat", product="matrices", factors=(0, 1), squares_at=(1,), numbers=(2, 3, 4, 5),
       per_column=(3, 5), bias=6),
    *each("FusedGemm GemmFastGelu GemmFloat8", product="matrices", factors=(0, 1)),
    *each("MatMulNBits MatMulBnb4 MatMulFpQ4", product="matrices"),
    Op("QGemm", product="matrices", factors=(0, 3)),
    *each("FusedConv NhwcConv NhwcFusedConv", product="windows", weight=1, moves_windows=True),
    Op("QLinearConv", product="windows", weight=3, moves_windows=True),
    Op("Attention", product="attention", mask=(3,), scores=(5,), lengths=(6,)),
    Op("MultiHeadAttention", product="attention", attends=Attends(1, 2, 6, 7), mask=(4,), scores=(5,)),
    Op("GroupQueryAttention", product="attention", attends=Attends(1, 2, 3, 4), scores=(10,), lengths=(5, 6),
       lookups=(Lookup(9, 7),)),
    Op("RotaryEmbedding", same=True, picks=True, lookups=(Lookup(1, 2),)),
    Op("GridSample", reads_places=True),
)  # fmt: skip

_ML = (
    Op("LabelEncoder", words=("keys_strings", "classes_strings")),
    *each("CategoryMapper OneHotEncoder", words=("cats_strings",)),
)  # fmt: skip

_PLUGINS = (
    *each("custom::deform_conv2d torchvision::deform_conv2d", product="windows", weight=1, reads_places=True),
    *each("mmcv::MMCVModulatedDeformConv2d trt.plugins::ModulatedDeformConv2d", product="windows", weight=3,
          reads_places=True),
)  # fmt: skip


def _of(domain: str, records: tuple[Op, ...]) -> Iterator[Op]:
    return (record._replace(name=f"{domain}::{record.name}") for record in records)


OTHERS = (*_of("com.microsoft", _MICROSOFT), *_of("ai.onnx.ml", _ML), *_PLUGINS)
