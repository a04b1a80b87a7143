"""Why TensorRT lacks ops, and what helps if no rule replaces them."""

from collections.abc import Mapping

from surgeon.targets.lint.finding import CONSTANT

Behind = tuple[str, tuple[str, ...]]
"""Why it lacks an op, as a clause, and what helps."""

BEFORE = "do it before the network"
SEQUENCES = ("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength")
LACKING: Mapping[str, Behind] = {
    **dict.fromkeys(
        ("Bernoulli", "Multinomial"), ("it draws random numbers", ("give these to the model as an input",))
    ),
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), ("it works on text", (BEFORE,))
    ),
    **dict.fromkeys(
        (*SEQUENCES, "SequenceMap", "ConcatFromSequence", "SplitToSequence"),
        ("it works on a sequence of tensors", ()),
    ),
    **dict.fromkeys(
        ("Optional", "OptionalGetElement", "OptionalHasElement"), ("it works on an optional value", ())
    ),
    "BitCast": ("it reads the bits of a number as another dtype", (BEFORE,)),
    "Compress": ("how many elements it gives hangs on its data", (CONSTANT,)),
    "ImageDecoder": ("it decodes files of pictures", ("decode them before the network, which takes their pixels",)),
    "MelWeightMatrix": ("it makes a table", (CONSTANT,)),
    "SoftmaxCrossEntropyLoss": ("it is a loss", ("export the model without its loss",)),
    "TfIdfVectorizer": ("it counts terms", (BEFORE,)),
    "Unique": ("how many elements it gives hangs on its data", (BEFORE, CONSTANT)),
}
OF_DOMAINS: Mapping[str, Behind] = {
    "ai.onnx.ml": ("it is of a classical model", ("run it apart from the network, under ONNX Runtime",)),
    "ai.onnx.preview.training": ("it is a step of training", ("export the model without its training",)),
}
UNSUPPORTED_BY_RTX: Mapping[str, tuple[str, ...]] = {"NonZero": (BEFORE, CONSTANT)}
"""What helps with an op that TensorRT reads and TensorRT-RTX does not, where no rule does."""


def reason_and_workarounds(domain: str, name: str) -> Behind:
    """Why TensorRT lacks an op, and what helps; "" and nothing if that is all."""
    return OF_DOMAINS.get(domain, ("", ())) if domain else LACKING.get(name, ("", ()))
