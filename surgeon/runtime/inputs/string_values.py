"""Strings for string inputs: strings of the model's constants and attributes, and variations of them."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from surgeon.ops.traits.trait_lookup import node_traits
from surgeon.ops.traversal import graphs_and_functions, nodes_of

_USUAL = ("a", "b", "one", "two words", "", "Zoë", "0.5")
_PAIRS = 6  # pairs of parts around a delimiter, more than the usual limit of a split
_MAX_CONSTANT_STRINGS = 64  # strings of one constant
_MAX_STRINGS = 160  # strings in total
_LONGEST = 64  # characters
_PART, _OTHER = "a", "b"  # parts next to a delimiter, or a substitute for any character
_CLASS = re.compile(r"\[\^?(\]?[^\]]*)\]|\\([dws])")
_MARKS, _ANY = re.compile(r"[\\^$|?*+(){}\[\]]"), re.compile(r"(?<!\\)\.")
_REPEATED = re.compile(r"(\w)[+*?]|(\w)\{\d+(?:,\d*)?\}")
_FLAGS, _GROUP = re.compile(r"\(\?[a-zA-Z]+\)"), re.compile(r"\((?:\?:|\?P<\w+>)?([^()]*)\)")
_OF_ESCAPES = {"d": "09", "w": "az_", "s": " \t"}


def vocabulary(model: ModelProto) -> list[str]:
    """The strings of a model's constants and attributes, then variations of them, without duplicates.

    The variations are upper and lower case; shorter and longer strings; one string without another as prefix or suffix;
    one, two, three and a dozen parts around delimiters, some empty; matches of regular expressions that consist of
    classes, choices and repetitions; single characters.
    """
    own = list(dict.fromkeys(text for text in _literals(model) if len(text) <= _LONGEST))
    if not own:
        return []
    made = (form for forms in (_parts, _cases, _matching) for text in own for form in forms(text))
    cut = (form for one in own for other in own if other for form in (one.removesuffix(other), one.removeprefix(other)))
    return [*dict.fromkeys((*own, *cut, *made, "", _PART, "a b", " a  b "))][:_MAX_STRINGS]


def in_turn(words: Sequence[str], shape: tuple[int, ...], seed: int, key: int) -> np.ndarray:
    """Return an object array of words, or of usual ones without any: half in turn by seed, half at random.

    key: identifies the input, so that two inputs do not have the same words at the same index.
    """
    known = np.array(words or _USUAL, dtype=object)
    order, random = np.random.default_rng(key).permutation(len(known)), np.random.default_rng([seed, key])
    made = random.choice(known, math.prod(shape))
    listed = made[::2].size
    made[::2] = known[order[np.arange(seed * listed, (seed + 1) * listed) % len(known)]]
    return made.reshape(shape)


def unmatched(model: ModelProto) -> str:
    """Why a regular expression of the model is not tested, as a clause: all strings of the vocabulary match or none."""
    known = vocabulary(model)
    for node in nodes_of(model):
        for item in node.attribute:
            if item.name not in node_traits(node).strings.regex_attributes:
                continue
            pattern = item.s.decode("utf-8", "replace")
            try:
                is_met = {re.fullmatch(pattern, text) is not None for text in known} == {True, False}
            except re.error:
                is_met = False
            if not is_met:
                return f"the generated strings do not test {pattern!r}: all match, or none"
    return ""


def _literals(model: ModelProto) -> Iterator[str]:
    for holder in graphs_and_functions(model):
        for tensor in holder.initializer if isinstance(holder, GraphProto) else ():
            yield from _strings(tensor)
    for node in nodes_of(model):
        for item in node.attribute:
            if item.type == AttributeProto.TENSOR:
                yield from _strings(item.t)
            elif _is_text(node, item):
                yield from (text.decode("utf-8", "replace") for text in (*item.strings, *([item.s] if item.s else [])))


def _is_text(node: NodeProto, item: AttributeProto) -> bool:
    """Whether an attribute holds text to compare with data, and not the name of a method."""
    return item.name in node_traits(node).strings.string_attributes or item.name in (
        "value_string",
        "value_strings",
    )


def _strings(tensor: TensorProto) -> Iterable[str]:
    texts = tensor.string_data if tensor.data_type == TensorProto.STRING else ()
    return [text.decode("utf-8", "replace") for text in texts[:_MAX_CONSTANT_STRINGS]]


def _parts(text: str) -> Iterator[str]:
    """Strings with the text as the delimiter between parts."""
    yield from (f"{_PART}{text}{_OTHER}", f"{_PART}{text}{_OTHER}{text}{_PART}", f"{_PART}{text}", f"{text}{_PART}")
    yield from (f"{_PART}{text}{text}{_OTHER}", f"{text}{text}", text.join([_PART, _OTHER] * _PAIRS))


def _cases(text: str) -> Iterator[str]:
    yield from (text.lower(), text.upper(), text.title(), text[:-1], text[1:], text[::-1])


def _matching(pattern: str) -> Iterator[str]:
    """Matches of a regular expression of classes, choices, repetitions and characters, and near misses."""
    plain = _FLAGS.sub("", pattern)
    for way in (0, -1):
        chosen = _GROUP.sub(lambda found: found[1].split("|")[way], plain)  # noqa: B023
        first, last = (_CLASS.sub(lambda found: _of_class(found, at), chosen) for at in (0, -1))  # noqa: B023
        doubled = _REPEATED.sub(lambda found: 2 * (found[1] or found[2]), first)
        left_out = re.sub(r"\w[*?]", "", first)
        for one in (first, last, doubled, left_out, *chosen.strip("^$").split("|")):
            text = _MARKS.sub("", _ANY.sub(_PART, one))
            yield from (text, f"{text}{_PART}", text[:-1])
        yield _MARKS.sub("", _ANY.sub("\n", first))


def _of_class(found: re.Match[str], at: int) -> str:
    characters = _OF_ESCAPES[found[2]] if found[2] else found[1]
    return re.escape(characters[at]) if characters else ""
