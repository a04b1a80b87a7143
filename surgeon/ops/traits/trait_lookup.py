"""What the engine knows of operators, looked up: by name, or as the set of the names of which something is true.

The sets are made once and hold names with their domains, as `Node.op` says them; in ONNX's own domain that is the bare
name.  An operator without a record has that of nothing told.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from onnx import NodeProto

from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_table import OTHERS, STANDARD
from surgeon.ops.traversal import node_label

RECORDS: Mapping[str, OpTraits] = MappingProxyType({record.name: record for record in (*STANDARD, *OTHERS)})
UNTOLD = OpTraits("")


def ops_with(is_so: Callable[[OpTraits], object]) -> frozenset[str]:
    """The names of the operators whose records say so."""
    return frozenset(record.name for record in RECORDS.values() if is_so(record))


BROADCASTING = ops_with(lambda op: op.broadcasts)
COMMUTATIVE = ops_with(lambda op: op.commutes)
IDENTITY_OPS = ops_with(lambda op: op.transparent == "always")
FOLDABLE = ops_with(lambda op: op.foldable)
LOOKUPS = ops_with(lambda op: op.copies_elements and op.lookups)
"""Those that pick elements of a table by indices."""
ONE_TYPE = ops_with(lambda op: op.one_type)
RESHAPE_OPS = ops_with(lambda op: op.is_reshape)
CAST_OPS = ops_with(lambda op: op.is_cast)
SPREADING = ops_with(lambda op: op.spreads)
TRANSPARENT = ops_with(lambda op: op.transparent)
WITH_BODIES = ops_with(lambda op: op.has_bodies)

ALWAYS_RANDOM = frozenset(name.rpartition("::")[2] for name in ops_with(lambda op: op.random == "always"))
"""The operators that draw in every run, without their domains."""
RANDOM = frozenset(name.rpartition("::")[2] for name in ops_with(lambda op: op.random))
"""Those, and the ones that draw where they are told that a model is in training."""

TRAINED = "export the model after model.eval()"
"""What to do about a model that trains where it is to answer."""


def is_random(node: NodeProto) -> bool:
    """Whether a node may draw random numbers: as Dropout does only where its input tells of training."""
    slot = guess_node_traits(node).training
    return node.op_type in ALWAYS_RANDOM or (slot is not None and any(node.input[slot : slot + 1]))


def random_among(nodes: Iterable[NodeProto]) -> str:
    """The first of some nodes that may draw random numbers, in words, as the likely cause of answers that differ."""
    for node in nodes:
        if is_random(node):
            of_training = f" in training: {TRAINED}" if node.op_type not in ALWAYS_RANDOM else ""
            return f" ({node.op_type} {node_label(node)!r} is random{of_training})"
    return ""


def traits_of(name: str) -> OpTraits:
    """What is known of an operator, named with its domain but for ONNX's own."""
    return RECORDS.get(name, UNTOLD)


@cache
def guess_traits(name: str) -> OpTraits:
    """What an operator may be taken for where a wrong guess costs little: which inputs are made up for it, say.

    One without a record is taken for one of the same name in another domain, else for what its name speaks of: an
    operator called FusedConvRelu adds up products in windows.
    """
    found = RECORDS.get(name)
    bare = name.rpartition("::")[2]
    if found is None:
        found = next((item for item in RECORDS.values() if item.name.rpartition("::")[2] == bare), None)
    return _by_words(name, bare) if found is None else found


def guess_node_traits(node: NodeProto) -> OpTraits:
    """The same for a node of a file."""
    return guess_traits(f"{node.domain}::{node.op_type}" if node.domain else node.op_type)


def _by_words(name: str, bare: str) -> OpTraits:
    found = UNTOLD._replace(name=name)
    for words, like in _WORDS.items():
        if re.search(words, bare):
            found = found._replace(**like)
    return found


_WORDS: Mapping[str, dict[str, Any]] = {
    "MatMul|Gemm": {"product": "matrices"},
    "Einsum": {"product": "equation"},
    "LSTM|GRU|RNN": {"product": "steps"},
    "[Cc]onv": {"product": "windows", "weight": 1, "moves_windows": True},
    "ConvTranspose": {"product": "turned windows", "weight": 1, "moves_windows": True},
    "Attention": {"product": "attention"},
    "eform": {"reads_places": True},
    "Norm": {"adds_up": True, "squares": True},
    "Reduce|Softmax|Pool|CumSum": {"adds_up": True},
    "Rotary|ReduceM|MaxPool": {"picks": True},
}
