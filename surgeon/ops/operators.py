"""The records of ONNX's own operators, and of those of other domains: ONNX Runtime's, ai.onnx.ml's, and plugins'.

The facts are those of the ONNX specification, but for the kinds of rounding (`of_one`, `to_scale`), which are of
kernels.  An operator of which nothing is said here needs no record.
"""

from collections.abc import Iterator

from surgeon.ops.record import EVERY, Attends, Axes, Lookup, Op, each

_ARITHMETIC = (
    Op("Add", broadcasts=True, one_type=True, commutes=True, family="sum", signs=(1, 1), neutral=0, foldable=True,
       to_scale=True),
    Op("Sub", broadcasts=True, one_type=True, family="sum", signs=(1, -1), neutral=0, foldable=True, to_scale=True),
    Op("Mul", broadcasts=True, one_type=True, commutes=True, family="product", signs=(1, 1), neutral=1, foldable=True,
       to_scale=True),
    Op("Div", broadcasts=True, one_type=True, family="product", signs=(1, -1), neutral=1, divisors=(1,), foldable=True,
       to_scale=True),
    Op("Neg", same=True, family="sum", signs=(-1,), exact=True, foldable=True, to_scale=True),
    Op("Reciprocal", same=True, family="product", signs=(-1,), foldable=True, to_scale=True),
    Op("Pow", broadcasts=True, squares=True, foldable=True, to_scale=True),
    Op("Mod", broadcasts=True, divisors=(1,), foldable=True),
    Op("Sum", broadcasts=True, commutes=True, to_scale=True),
    Op("Mean", broadcasts=True, commutes=True),
    *each("Max Min", broadcasts=True, commutes=True, moves=EVERY, foldable=True, to_scale=True),
    Op("BitShift", broadcasts=True),
    *each("BitwiseAnd BitwiseOr BitwiseXor", broadcasts=True, commutes=True),
    Op("StringConcat", broadcasts=True),
    Op("PRelu", broadcasts=True, same=True, to_scale=True),
)  # fmt: skip
_TRUTHS = (
    Op("Equal", broadcasts=True, truths=True, compares=True, commutes=True, foldable=True, to_scale=True),
    *each("Less LessOrEqual Greater GreaterOrEqual", broadcasts=True, truths=True, compares=True, foldable=True,
          to_scale=True),
    *each("And Or", broadcasts=True, truths=True, commutes=True, carries=EVERY, foldable=True, to_scale=True),
    Op("Xor", broadcasts=True, truths=True, commutes=True, foldable=True, mask=(0, 1)),
    Op("Not", truths=True, carries=(0,), foldable=True, to_scale=True),
    *each("IsNaN IsInf", truths=True, to_scale=True),
    Op("Where", broadcasts=True, moves=(1, 2), foldable=True, to_scale=True, mask=(0,), chooses=(0,)),
)  # fmt: skip
_ELEMENTWISE = (
    *each("Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cosh Hardmax Shrink Sinh Tan ThresholdedRelu Affine "
          "ParametricSoftplus ScaledTanh ImageScaler", same=True),
    Op("Abs", same=True, exact=True, foldable=True, to_scale=True),
    Op("Sign", same=True, exact=True, foldable=True),
    *each("Ceil Floor", same=True, carries=(0,), exact=True, foldable=True),
    Op("Round", same=True, carries=(0,), exact=True),
    Op("Clip", same=True, carries=(0,), exact=True, foldable=True, to_scale=True),
    Op("Relu", same=True, exact=True, foldable=True, to_scale=True),
    *each("LeakyRelu HardSwish", same=True, to_scale=True),
    Op("Sqrt", same=True, foldable=True, to_scale=True),
    *each("Cos Exp Log Sin", same=True, foldable=True, of_one=True),
    *each("Celu Elu Mish Selu Softplus Softsign", same=True, of_one=True),
    *each("Erf Sigmoid Tanh", same=True, foldable=True, of_one=True, to_scale=True),
    *each("Gelu HardSigmoid Swish", same=True, of_one=True, to_scale=True),
)  # fmt: skip
_MOVING = (
    Op("Identity", same=True, moves=(0,), transparent="always", foldable=True, to_scale=True),
    Op("Cast", keeps_shape=True, carries=(0,), retypes=True, transparent="same dtype", foldable=True, to_scale=True),
    Op("CastLike", keeps_shape=True, carries=(0,), retypes=True),
    Op("Dropout", keeps_shape=True, carries=(0,), exact=True, transparent="inference", random="training", training=2),
    Op("Reshape", moves=(0,), regroups=True, foldable=True, sizes_at=(1,)),
    Op("Flatten", moves=(0,), regroups=True, foldable=True),
    Op("Unsqueeze", moves=(0,), regroups=True, foldable=True, axes=Axes(1, 13, of_result=True)),
    Op("Squeeze", moves=(0,), regroups=True, foldable=True, axes=Axes(1, 13)),
    Op("Expand", moves=(0,), spreads=True, foldable=True, counts=(1,), sizes_at=(1,)),
    Op("Tile", moves=(0,), spreads=True, foldable=True, counts=(1,)),
    Op("Slice", moves=(0,), foldable=True, counts=(2, 4), zeros=(1,), axes=Axes(3, 10, in_order=True)),
    Op("Split", outputs_in="num_outputs", moves=(0,), foldable=True, counts=(1,)),
    Op("Concat", moves=EVERY, foldable=True),
    Op("Transpose", moves=(0,), foldable=True),
    *each("DepthToSpace SpaceToDepth", moves=(0,)),
    *each("Gather GatherElements", moves=(0,), foldable=True, lookups=(Lookup(1, 0, "axis"),)),
    Op("GatherND", moves=(0,), foldable=True, lookups=(Lookup(1, 0, by_tuples=True),)),
    *each("Scatter ScatterElements", same=True, carries=(0, 2), exact=True, lookups=(Lookup(1, 0, "axis"),)),
    Op("ScatterND", same=True, carries=(0, 2), exact=True, foldable=True, lookups=(Lookup(1, 0, by_tuples=True),)),
    Op("TensorScatter", same=True, carries=(0, 1), exact=True),
    Op("Compress", moves=(0,), mask=(1,)),
    Op("ReverseSequence", same=True, moves=(0,), lengths=(1,)),
    Op("Pad", carries=(0,), exact=True, spreads=True, foldable=True, counts=(1,), axes=Axes(3)),
    Op("Trilu", same=True, carries=(0,), exact=True, foldable=True, zeros=(1,)),
    Op("SequenceConstruct", moves=EVERY),
    *each("SequenceAt ConcatFromSequence", moves=(0,)),
    Op("SplitToSequence", moves=(0,), counts=(1,)),
)  # fmt: skip
_MADE = (
    Op("Constant", exact=True, to_scale=True),
    Op("ConstantOfShape", exact=True, spreads=True, foldable=True, counts=(0,), sizes_at=(0,)),
    Op("Range", exact=True, spreads=True, foldable=True, counts=(0, 1, 2), zeros=(0,)),
    Op("EyeLike", reads_shape=True, exact=True, spreads=True, foldable=True),
    *each("Shape Size", sizes=True, reads_shape=True, foldable=True),
    Op("OneHot", exact=True, counts=(1,), below=(0, 1)),
    Op("NonZero", places=True, foldable=True),
    *each("ArgMax ArgMin SequenceLength", places=True),
    Op("NonMaxSuppression", places=True, counts=(2,), overlaps=(0,)),
    Op("TopK", exact=True, further_places=True, counts=(1,)),
    Op("Unique", further_places=True, foldable=True),
    *each("BlackmanWindow HammingWindow HannWindow", counts=(0,)),
    Op("MelWeightMatrix", foldable=True),
    *each("RandomNormal RandomUniform Multinomial Bernoulli", random="always"),
    *each("RandomNormalLike RandomUniformLike", random="always", reads_shape=True),
    Op("DequantizeLinear", keeps_shape=True, exact=True, unshared=True),
    Op("QuantizeLinear", keeps_shape=True, unshared=True),
)  # fmt: skip
_SUMS = (
    Op("ReduceMean", reduces="sum", adds_up=True, axes=Axes(1, 18)),
    Op("ReduceSum", reduces="sum", adds_up=True, axes=Axes(1, 13)),
    *each("ReduceL1 ReduceLogSum ReduceLogSumExp", reduces="sum", adds_up=True, axes=Axes(1, 18)),
    *each("ReduceL2 ReduceSumSquare", reduces="sum", adds_up=True, squares=True, axes=Axes(1, 18)),
    Op("ReduceProd", reduces="product", foldable=True, axes=Axes(1, 18)),
    *each("ReduceMax ReduceMin", reduces="pick", picks=True, moves=(0,), foldable=True, axes=Axes(1, 18)),
    Op("CumSum", same=True, adds_up=True, foldable=True, axes=Axes(1)),
    Op("CumProd", same=True, axes=Axes(1)),
    Op("Softmax", same=True, adds_up=True, softmax=True, of_one=True, scores=(0,)),
    Op("LogSoftmax", same=True, adds_up=True, of_one=True),
    *each("LpNormalization MeanVarianceNormalization", same=True, adds_up=True, squares=True),
    Op("LRN", same=True),
    Op("LayerNormalization", keeps_shape=True, norm="axis", adds_up=True, squares=True, vectors=(1, 2)),
    *each("RMSNormalization SimplifiedLayerNormalization", same=True, norm="axis", adds_up=True, squares=True,
          vectors=(1,)),
    Op("InstanceNormalization", same=True, norm=2, adds_up=True, squares=True, channels=(1, 2)),
    Op("GroupNormalization", same=True, norm=1, adds_up=True, squares=True, channels=(1, 2)),
    Op("BatchNormalization", keeps_shape=True, adds_up=True, squares=True, channels=(1, 2, 3, 4), overwrites=(3, 4)),
    *each("GlobalAveragePool GlobalLpPool", adds_up=True),
    *each("AveragePool LpPool", adds_up=True, moves_windows=True),
    Op("MaxPool", picks=True, exact=True, further_places=True, moves_windows=True),
    Op("GlobalMaxPool", picks=True, exact=True),
)  # fmt: skip
_PRODUCTS = (
    Op("MatMul", one_type=True, product="matrices", factors=(0, 1), squares_at=(1,), foldable=True),
    Op("MatMulInteger", product="matrices", factors=(0, 1), squares_at=(1,), numbers=(2, 3)),
    Op("QLinearMatMul", product="matrices", factors=(0, 3)),
    Op("Gemm", product="matrices", factors=(0, 1), squares_at=(1,), foldable=True),
    Op("Einsum", product="equation"),
    Op("Conv", product="windows", weight=1, moves_windows=True, kernels=(1,), channels=(2,)),
    Op("ConvInteger", product="windows", weight=1, moves_windows=True),
    Op("QLinearConv", product="windows", weight=3, moves_windows=True),
    Op("ConvTranspose", product="turned windows", weight=1, moves_windows=True, kernels=(1,), channels=(2,)),
    Op("DeformConv", product="windows", weight=1, moves_windows=True, reads_places=True),
    *each("LSTM GRU RNN", product="steps", weight=1, lengths=(4,), of_one=True),
    Op("Attention", product="attention", attends=Attends(1, 2, 4, 5), mask=(3,), scores=(3,), lengths=(6,)),
    Op("RotaryEmbedding", same=True, picks=True, lookups=(Lookup(3, 1),)),
)  # fmt: skip
_OTHERS = (
    Op("If", has_bodies=True, conditions=(0,), chooses=(0,)),
    Op("Loop", has_bodies=True, trips=(0,), conditions=(1,)),
    *each("Scan SequenceMap", has_bodies=True),
    Op("GridSample", reads_places=True),
    Op("RoiAlign", reads_places=True, boxes=1, lookups=(Lookup(2, 0),)),
    Op("MaxUnpool", deciding=(1,)),
    Op("Resize", counts=(2, 3), sizes_at=(3,)),
    Op("Upsample", counts=(1,)),
    *each("SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss", adds_up=True, lookups=(Lookup(1, 0, usual=1),)),
    Op("TfIdfVectorizer", words=("pool_strings",)),
)  # fmt: skip
STANDARD = (
    *_ARITHMETIC, *_TRUTHS, *_ELEMENTWISE, *_MOVING, *_MADE, *_SUMS, *_PRODUCTS, *_OTHERS
)  # fmt: skip
_MICROSOFT = (
    *each("Gelu QuickGelu", same=True, of_one=True, to_scale=True),
    *each("BiasGelu FastGelu", same=True, of_one=True, to_scale=True, vectors=(1,)),
    *each("BiasAdd GemmaRotaryEmbedding Inverse MoE QLinearLeakyRelu QLinearSigmoid QMoE", same=True),
    Op("BiasSoftmax", same=True, adds_up=True, softmax=True, scores=(0, 1)),
    Op("QLinearSoftmax", same=True, adds_up=True),
    *each("QuantizeLinear DequantizeLinear", keeps_shape=True, unshared=True),
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
    *each("torchvision::roi_align mmcv::MMCVRoiAlign mmdeploy::MMCVRoiAlign", reads_places=True, boxes=1),
    Op("trt.plugins::GroupNormalizationPlugin", same=True, norm=1, adds_up=True, squares=True, channels=(1, 2)),
    Op("trt.plugins::InstanceNormalization_TRT", same=True, norm=2, adds_up=True, squares=True),
    Op("trt.plugins::ScatterElements", same=True, carries=(0, 2), exact=True, lookups=(Lookup(1, 0, "axis"),)),
    Op("trt.plugins::ROIAlign_TRT", reads_places=True, boxes=1, lookups=(Lookup(2, 0),)),
)  # fmt: skip


def _of(domain: str, records: tuple[Op, ...]) -> Iterator[Op]:
    return (record._replace(name=f"{domain}::{record.name}") for record in records)


OTHERS = (*_of("com.microsoft", _MICROSOFT), *_of("ai.onnx.ml", _ML), *_PLUGINS)
