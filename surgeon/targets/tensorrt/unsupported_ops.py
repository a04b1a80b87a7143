"""Why TensorRT lacks ops, and remedies if no rule replaces them."""

from collections.abc import Mapping

from surgeon.targets.lint.finding import CONSTANT

Behind = tuple[str, tuple[str, ...]]
"""Why it lacks an op, as a clause, and remedies."""

BEFORE = "compute it outside the model"
SEQUENCES = ("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength")
LACKING: Mapping[str, Behind] = {
    **dict.fromkeys(("Bernoulli", "Multinomial"), ("it generates random numbers", ("pass them as an input",))),
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), ("it works on strings", (BEFORE,))
    ),
    **dict.fromkeys(
        (*SEQUENCES, "SequenceMap", "ConcatFromSequence", "SplitToSequence"),
        ("it works on a sequence of tensors", ()),
    ),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), ("it works on an optional value", ())),
    "BitCast": ("it reinterprets the bits of a number", (BEFORE,)),
    "Compress": ("its number of elements depends on its data", (CONSTANT,)),
    "ImageDecoder": ("it decodes image files", ("decode them outside the model, and pass the pixels",)),
    "MelWeightMatrix": ("it computes a table", (CONSTANT,)),
    "SoftmaxCrossEntropyLoss": ("it computes a loss", ("export the model without its loss",)),
    "TfIdfVectorizer": ("it counts terms", (BEFORE,)),
    "Unique": ("its number of elements depends on its data", (BEFORE, CONSTANT)),
}
OF_DOMAINS: Mapping[str, Behind] = {
    "ai.onnx.ml": ("it is an op of classical machine learning", ("run it separately, under ONNX Runtime",)),
    "ai.onnx.preview.training": ("it is a training op", ("export the model for inference",)),
}
UNSUPPORTED_BY_RTX: Mapping[str, tuple[str, ...]] = {"NonZero": (BEFORE, CONSTANT)}
"""Remedies for an op that TensorRT reads and TensorRT-RTX does not, without a rule for it."""


def reason_and_workarounds(domain: str, name: str) -> Behind:
    """Why TensorRT lacks an op, and remedies; "" and () without a special reason."""
    return OF_DOMAINS.get(domain, ("", ())) if domain else LACKING.get(name, ("", ()))
