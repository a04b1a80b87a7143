"""Where a model is to run, and which kinds of form are written for that."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """Where a model is to run.  writes: the kinds of form it takes, best first.  runs: kinds it leaves as they are.

    like: the target that it is the same as for a rule without a form of its own kind.
    """

    name: str
    writes: tuple[str, ...]
    runs: tuple[str, ...]
    like: str = ""


DECOMPOSED = "decomposed"
# Inputs of which a rule may say that it differs there, and be exact all the same: what is no number, and indices from
# the end, which its op refuses.
NON_FINITE, BACKWARDS = "non_finite", "backwards"
ANY = "any"  # the kind of form that suits every target: less of what is there
TARGETS = {
    target.name: target
    for target in (
        Target("ort", ("ort", "onnx", ANY), ("ort", "onnx")),  # its own ops; standard ones, which it runs too, stay
        Target("onnx", ("onnx", ANY), ("onnx",)),
        Target("tensorrt", ("tensorrt", "onnx", ANY), ("tensorrt", "onnx"), like="onnx"),  # its plugins, then ONNX
        Target("contrib", ("ort", ANY), ("ort",)),  # ONNX Runtime's own ops, also in place of standard ones
        Target(DECOMPOSED, (DECOMPOSED,), (DECOMPOSED,)),
    )
}
KINDS = ("ort", "onnx", "tensorrt", DECOMPOSED, ANY)
