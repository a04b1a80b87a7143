"""TensorRT's messages as readable clauses."""

import re
from collections.abc import Iterable

_TOO_LONG = 300
# "(condition) && "reason"", "Assertion failed: condition: reason"
_QUOTED = re.compile(r'&&\s*"(?P<reason>.*)"\s*$', re.DOTALL)
_ASSERTED = re.compile(r"Assertion failed: .*?: (?P<reason>[A-Z`].*)$", re.DOTALL)
_CODED = re.compile(r"Error Code \d+: (?P<kind>[A-Z][\w ]*?) ?\((?P<reason>.*?)(?: In \S+ at /.*)?\)?$")
_DRIVER = re.compile(r"Cuda Runtime|CUDA driver|catchCudaError", re.IGNORECASE)
_NODE = re.compile(r"\(?surgeon-node-\d+\w*\)?[:\]]? ?")
# Messages of the parser on an op without an importer, and on an op that may be a plugin.
NO_IMPORTER = "TensorRT's parser does not support this op"
NEEDS_GPU = "TensorRT creates this plugin only on a machine with a GPU, so it was not checked"
# Messages of the builder on an input that a size or an axis depends on, and on a rank that depends on a size.
NEEDS_BUILD_TIME_VALUE = "determines sizes or axes, which TensorRT must know at build time"
FIXED_RANK = "the output rank, which is fixed at build time"
UNSUPPORTED_IO_DTYPE = "TensorRT does not support the dtype of an input, output or weight of the network"
_KNOWN = (
    (re.compile(r"^false$"), NO_IMPORTER),
    (re.compile(r"[Pp]lugin(?: creator.*?)?(?: was)? not found|failed to load \w+ plugin"), NO_IMPORTER),
    (re.compile(r"convertDtype\(onnxDtype\.elem_type|importInitializers"), UNSUPPORTED_IO_DTYPE),
    (re.compile(r"Ax(?:is|es) input must resolve|axis is not a constant"), "TensorRT must know the axes at build time"),
    (re.compile(r"layerImpls\.empty\(\)|no runners that implement"), "TensorRT has no kernel for it on this GPU"),
    (re.compile(r"doesn't support mo\w+ than (\d+) outputs"), r"TensorRT produces only the first \1 of its outputs"),
    (
        re.compile(r"is a shape tensor and must have type.*?Type is (\w+)"),
        r"a size is computed from an input of \1, but TensorRT computes sizes only in integers",
    ),
)
# Messages of the builder on sizes that do not fit the graph: an error of the profile, not of the model.
_OF_SIZES = re.compile(r"reshap|negative|empty|volume|broadcast|dimension|conformable|profile|slice", re.IGNORECASE)


def concerns_sizes(reason: str) -> bool:
    """Whether a reason of the builder is about the sizes of the profile."""
    return _OF_SIZES.search(reason) is not None


def lacks_driver(lines: Iterable[str]) -> bool:
    """Whether TensorRT logged that the GPU driver is missing, which some builtin plugins need at creation."""
    return any(_DRIVER.search(line) is not None for line in lines)


def readable_reason(message: str) -> str:
    """The reason in a message of TensorRT, as a clause without a full stop and without surgeon's node names.

    Known messages get surgeon's own words.  Others lose conditions and lines of the source code.
    """
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("Invalid Node - ")]
    kept = [line for line in lines if not _DRIVER.search(line)] or lines or [message]
    text = " ".join(kept)
    for pattern, words in _KNOWN:
        found = pattern.search(text)
        if found is not None:
            return found.expand(words)
    for pattern in (_QUOTED, _ASSERTED, _CODED):
        found = pattern.search(kept[0].strip())
        if found is not None:
            text = found["reason"]
            break
    else:
        text = kept[0]
    text = " ".join(_NODE.sub("", text).split()).rstrip(".!")
    return text if len(text) <= _TOO_LONG else f"{text[:_TOO_LONG]}…"
